"""Operators by datasheet, torchao and wave: their formulas, and whose attention they have."""

from dataclasses import replace

import pytest

from roofcal.ask.llm.architecture import LocalMatrix
from roofcal.ask.llm.operator_models import operator_times
from roofcal.ask.llm.operator_times import AttentionWork
from roofcal.models.errors import PredictError
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.operators import activation, all_reduce, normalisation, send
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, attention_work
from tests.roofcal.models.runs import WAVE

PLAIN = Sources(spec=LINKED)
DESCRIBED = Sources(spec=replace(LINKED, wave=WAVE))
DATASHEET = operator_times(PLAIN, "bf16", "datasheet")
TORCHAO = operator_times(PLAIN, "bf16", "torchao")
WAVES = operator_times(DESCRIBED, "bf16", "wave")
MATRIX = LocalMatrix(n=8192, k=4096)
PREFILL = AttentionWork(
    flops=1e12, read_bytes=1e9, heads=8, kv_heads=2, head_dim=128, requests=2.0,
    query_tokens=512.0, kv_tokens=1024.0, shared_kv=False,
)  # fmt: skip


def seconds(call: object) -> float:
    return call.duration.value_s  # type: ignore[attr-defined,no-any-return]


def test_the_datasheet_bounds_every_operator() -> None:
    assert seconds(DATASHEET.elementwise(4.8e9)) == pytest.approx(1e-3)
    assert seconds(DATASHEET.attention(attention_work(1e12, 1))) == pytest.approx(1e-3)
    assert seconds(DATASHEET.attention(attention_work(1, 4.8e9))) == pytest.approx(1e-3)
    assert seconds(DATASHEET.norm(10, 4096)) == pytest.approx(8 * 10 * 4096 / 4.8e12)
    activated = DATASHEET.activation(10, 8192, 4096)
    assert seconds(activated) == pytest.approx(2 * 10 * (8192 + 4096) / 4.8e12)
    reduced = DATASHEET.link("auto", 8, 1).collective("all_reduce", 8, 8e6)
    assert seconds(reduced) == pytest.approx(2 * 7 / 8 * 8e6 / 450e9)


def test_torchao_takes_its_fractions_and_no_kernel_below_two_microseconds() -> None:
    assert seconds(TORCHAO.elementwise(0.92 * 4.8e9)) == pytest.approx(1e-3)
    assert seconds(TORCHAO.attention(attention_work(0.78e12, 1))) == pytest.approx(1e-3)
    assert TORCHAO.elementwise(1).bound_by == "launch"
    assert seconds(TORCHAO.elementwise(1)) == pytest.approx(2e-6)
    assert "assumed 0.7" in str(TORCHAO.link("auto", 8, 1).provenance)


@pytest.mark.parametrize("times", [DATASHEET, TORCHAO, WAVES])
def test_int4_reads_a_quarter_of_the_bytes_and_computes_in_bf16(times: object) -> None:
    small, large = (times.product(r, 1, MATRIX) for r in ("int4", "bf16"))  # type: ignore[attr-defined]
    assert seconds(small) < seconds(large)
    roof = 4.25 / 8 * 8192 * 4096 / 4.8e12
    assert seconds(small) >= roof


def test_on_a_described_device_torchaos_other_operators_are_the_wave_models() -> None:
    torchao = operator_times(DESCRIBED, "bf16", "torchao")
    assert torchao.attention(PREFILL) == WAVES.attention(PREFILL)
    assert torchao.norm(64, 4096) == WAVES.norm(64, 4096)
    assert torchao.product("bf16", 64, MATRIX) == TORCHAO.product("bf16", 64, MATRIX)
    datasheet = operator_times(DESCRIBED, "bf16", "datasheet")
    assert datasheet.attention(PREFILL) == DATASHEET.attention(PREFILL)


def test_waves_time_the_kernels_of_their_model() -> None:
    shape = Attention(
        heads=8, kv_heads=2, head_dim=128, query_tokens=512, kv_tokens=1024, sequences=2
    )
    assert seconds(WAVES.attention(PREFILL)) == flash_attention(WAVE, shape).total_s
    assert seconds(WAVES.norm(64, 4096)) == normalisation(WAVE, 64, 4096, residual=True).total_s
    assert seconds(WAVES.activation(64, 8192, 4096)) == activation(WAVE, 64 * 4096).total_s
    link = WAVES.link("auto", 4, 2)
    assert seconds(link.collective("all_reduce", 4, 1e6)) == all_reduce(WAVE, 10**6, 4).total_s
    assert seconds(link.send(1e6)) == send(WAVE, 10**6).total_s


def test_one_gpu_has_no_link() -> None:
    for times in (DATASHEET, TORCHAO, WAVES):
        assert times.link("auto", 1, 1).provenance is None


def test_what_a_model_lacks_is_named() -> None:
    with pytest.raises(PredictError, match=r"made-up\.yaml has no section 'wave'"):
        operator_times(PLAIN, "bf16", "wave")
    with pytest.raises(
        PredictError, match="model 'datasheet' of made-up does not know recipe 'fp4'"
    ):
        operator_times(PLAIN, "fp4", "datasheet")
    with pytest.raises(PredictError, match="needs a file in config/devices"):
        operator_times(Sources(), "bf16", "torchao")
