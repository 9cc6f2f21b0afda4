"""Operators of a pass: which there are, how much work each has, what bounds it."""

from dataclasses import replace

import pytest

from roofcal.ask.llm.deployment import LocalMatrix
from roofcal.ask.llm.operator_models import CalibratedOperators
from roofcal.ask.llm.operators import Operator, Pass, Shard
from roofcal.models.link import link_of
from tests.roofcal.ask.llm.deployments import LINKED, calibrated, deployment

TIMES = CalibratedOperators(calibration=calibrated(), spec=LINKED)
LINK = link_of(TIMES.calibration, LINKED, "auto", 8, 1)
DECODE = Pass(phase="decode", tokens=4, requests=4, context=1000)
PREFILL = Pass(phase="prefill", tokens=2048, requests=1, context=1024)


def shard(name: str = "llama3-8b", recipe: str = "bf16", tp: int = 1) -> Shard:
    return Shard(deployment(name, recipe, tp), TIMES, LINK)


def by_name(on_one_gpu: Shard, forward: Pass = DECODE) -> dict[str, Operator]:
    return {operator.name: operator for operator in on_one_gpu.operators(forward)}


def test_a_dense_layer_in_bf16_on_one_gpu() -> None:
    calls = {name: operator.calls for name, operator in by_name(shard()).items()}
    assert calls == {
        "norm": 65, "qkv": 32, "rope and cache": 32, "attention": 32, "attention_out": 32,
        "gate_up": 32, "activation": 32, "down": 32, "embedding": 1, "head": 1,
    }  # fmt: skip


def test_several_gpus_add_two_all_reduces_a_layer_and_fp8_a_cast_per_product() -> None:
    calls = {name: operator.calls for name, operator in by_name(shard(tp=8)).items()}
    assert (calls["all-reduce"], calls["all-gather"]) == (64, 1)
    assert by_name(shard(recipe="fp8_tensorwise"))["cast"].calls == 4 * 32
    assert "cast" not in by_name(shard(recipe="int4"))


def test_a_mixture_of_experts_has_its_own_operators() -> None:
    calls = {name: one.calls for name, one in by_name(shard("deepseek-v3", tp=8)).items()}
    dense, experts = dict.fromkeys(("dense_gate_up", "dense_down"), 3), (
        "router", "dispatch", "expert_gate_up", "expert_down", "combine", "shared_gate_up",
        "shared_down",
    )  # fmt: skip
    latent = dict.fromkeys(("q_down", "q_up", "kv_down", "kv_up", "attention"), 61)
    expected = latent | dense | dict.fromkeys(experts, 58)
    expected |= {"activation": 3 + 58 + 58, "all-reduce": 2 * 61}
    assert calls.items() >= expected.items()
    assert not {"qkv", "gate_up"} & calls.keys()
    assert "shared_down" not in by_name(shard("qwen3-30b-a3b"))


def test_a_cast_reads_bf16_and_writes_fp8() -> None:
    one = shard(recipe="fp8_tensorwise")
    width = 4096 + 4096 + 4096 + 14336  # what the four products read
    bytes_ = 5 * 2048 * width + 4 * 4  # tensorwise reads bf16 twice
    expected = 32 * (4 * 1e-6 + bytes_ / 4e12)
    assert by_name(one, PREFILL)["cast"].total.value_s == pytest.approx(expected)


def test_experts_are_timed_by_how_many_a_batch_visits() -> None:
    one = replace(DECODE, tokens=1, requests=1)
    down = by_name(shard("qwen3-30b-a3b"), one)["expert_down"].duration.value_s
    expected = TIMES.product("bf16", 8, LocalMatrix(n=2048, k=768), 8).duration.value_s
    assert down == pytest.approx(expected)


LONG = replace(DECODE, tokens=256, requests=256, context=4096)


@pytest.mark.parametrize(
    ("cut", "forward", "flops", "read", "bound_by"),
    [
        # decode reads the keys and values of every request
        (("llama3-8b", 1), DECODE, 0, 4 * 1000 * 2 * 8 * 128 * 2, "dram"),
        (("llama3-8b", 1), PREFILL, 4 * 32 * 128 * 2048 * 1024, 0, "math"),
        # latent: one vector for all heads, over which they compute more; on every GPU all of it
        (("deepseek-v3", 1), LONG, 2 * 128 * (2 * 512 + 64) * 256 * 4096, 0, "math"),
        (("deepseek-v3", 8), LONG, 0, 256 * 4096 * 576 * 2, "dram"),
        # latent prefill: keys of 192 and values of 128
        (("deepseek-v3", 1), PREFILL, 2 * 128 * (128 + 64 + 128) * 2048 * 1024, 0, "math"),
    ],
)
def test_attention_takes_its_operations_or_its_cache(
    cut: tuple[str, int], forward: Pass, flops: int, read: int, bound_by: str
) -> None:
    name, tensor = cut
    attention = by_name(shard(name, tp=tensor), forward)["attention"]
    seconds = flops / (0.55 * 1e15) + read / 4.5e12
    assert attention.duration.value_s == pytest.approx(1e-6 + seconds)
    assert attention.bound_by == bound_by


def test_the_head_stays_in_bf16_under_every_recipe() -> None:
    heads = {by_name(shard(recipe=r))["head"].duration for r in ("bf16", "fp8_tensorwise", "int4")}
    assert len(heads) == 1


def test_an_all_reduce_carries_the_stream() -> None:
    expected = LINK.collective("all_reduce", 8, 4 * 4096 * 2).duration
    reduced = by_name(shard(tp=8))["all-reduce"].duration
    assert reduced.value_s == pytest.approx(expected.value_s)
