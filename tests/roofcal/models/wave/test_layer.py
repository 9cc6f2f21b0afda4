"""A layer and a model: what is added, what divides, and every way to ask wrongly."""

from dataclasses import replace
from typing import Any

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.wave.collectives import send
from roofcal.models.wave.gemm import product
from roofcal.models.wave.layer import (
    Parallelism,
    Pass,
    Transformer,
    end_times,
    layer_times,
    pass_seconds,
)
from tests.roofcal.models.runs import WAVE

MODEL = Transformer(
    model_dim=4096, hidden_dim=14336, layers=32, heads=32, kv_heads=8, vocabulary=128256
)
PROMPT = Pass(sequences=1, tokens=1024, context=1024)
STEP = Pass(sequences=4, tokens=1, context=1025)


def test_a_layer_has_its_products() -> None:
    times = layer_times(WAVE, MODEL, Parallelism(tensor_ranks=2), PROMPT)
    shapes = {
        "qkv": (1024, (32 + 2 * 8) // 2 * 128, 4096),
        "out": (1024, 4096, 2048),
        "gate_up": (1024, 14336, 4096),
        "down": (1024, 4096, 7168),
    }
    for name, shape in shapes.items():
        assert times[name] == product(WAVE, "bf16", *shape)
    assert times["mlp_all_reduce"].total_s > 0


def test_one_rank_exchanges_nothing() -> None:
    times = layer_times(WAVE, MODEL, Parallelism(), PROMPT)
    assert times["attention_all_reduce"].total_s == times["mlp_all_reduce"].total_s == 0


def test_a_pass_is_its_layers_and_its_ends() -> None:
    layer = sum(t.total_s for t in layer_times(WAVE, MODEL, Parallelism(), STEP).values())
    ends = sum(t.total_s for t in end_times(WAVE, MODEL, Parallelism(), STEP).values())
    assert pass_seconds(WAVE, MODEL, Parallelism(), STEP) == pytest.approx(32 * layer + ends)


def test_stages_add_their_sends_and_take_nothing_off_a_token() -> None:
    alone = pass_seconds(WAVE, MODEL, Parallelism(), STEP)
    staged = pass_seconds(WAVE, MODEL, Parallelism(pipeline_ranks=4), STEP)
    assert staged == pytest.approx(alone + 3 * send(WAVE, 4 * 4096 * 2).total_s)


def test_decoding_reads_a_longer_cache_longer() -> None:
    longer = replace(STEP, context=200_000)
    short, long = (
        layer_times(WAVE, MODEL, Parallelism(), step)["attention"].total_s
        for step in (STEP, longer)
    )
    assert long > 2 * short


@pytest.mark.parametrize(
    ("model", "split", "step", "message"),
    [
        ({}, {"tensor_ranks": 3}, {}, "32 heads do not divide among 3 tensor ranks"),
        ({}, {"tensor_ranks": 16}, {}, "8 key/value heads do not divide among 16"),
        ({"hidden_dim": 14335}, {"tensor_ranks": 2}, {}, "14335 hidden columns do not divide"),
        ({"model_dim": 4095}, {}, {}, "4095 columns of the model do not divide among 32 heads"),
        ({}, {"pipeline_ranks": 5}, {}, "32 layers do not divide among 5 pipeline ranks"),
        ({}, {"tensor_ranks": 0}, {}, "parallelism: tensor=0"),
        ({}, {}, {"tokens": 2000}, "tokens=2000 are more than context=1024"),
        ({"vocabulary": 31}, {"tensor_ranks": 2}, {}, "31 words do not divide among 2"),
    ],
)
def test_mistakes_are_named(
    model: dict[str, Any], split: dict[str, Any], step: dict[str, Any], message: str
) -> None:
    with pytest.raises(PredictError, match=message):
        pass_seconds(WAVE, replace(MODEL, **model), Parallelism(**split), replace(PROMPT, **step))
