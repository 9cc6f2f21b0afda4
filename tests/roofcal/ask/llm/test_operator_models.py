"""Times of operators by every model: the calibrated model's own, or stated formulas."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.ask.llm.deployment import LocalMatrix
from roofcal.ask.llm.operator_models import (
    ATTENTION_SHARE,
    CACHE_SHARE,
    CalibratedOperators,
    estimable_recipes,
    operator_times,
)
from roofcal.ask.llm.operator_times import AttentionWork, OperatorTimes
from roofcal.core.times import CallTime
from roofcal.models import calibrated as calibrated_model
from roofcal.models.errors import PredictError
from roofcal.models.wave.attention import Attention, flash_attention
from roofcal.models.wave.operators import activation, all_reduce, normalisation, send
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, attention_work, calibrated
from tests.roofcal.ask.published_run import published_sources
from tests.roofcal.models.runs import WAVE, calibration

MATRIX = LocalMatrix(n=8192, k=4096)
TIMES = operator_times(SOURCES, "bf16")
PLAIN = Sources(spec=LINKED)
DESCRIBED = Sources(spec=replace(LINKED, wave=WAVE))
DATASHEET = operator_times(PLAIN, "bf16", "datasheet")
TORCHAO = operator_times(PLAIN, "bf16", "torchao")
WAVES = operator_times(DESCRIBED, "bf16", "wave")
CAUSAL = Attention(heads=8, kv_heads=2, head_dim=128, query_tokens=512, kv_tokens=1024, sequences=2)
PREFILL = AttentionWork(flops=1e12, read_bytes=1e9, shape=CAUSAL)


def seconds(call: CallTime) -> float:
    return call.duration.value_s


def test_int4_saves_bytes_and_no_math() -> None:
    def gain(rows: int) -> float:
        bf16, int4 = (TIMES.product(r, rows, MATRIX).duration for r in ("bf16", "int4"))
        assert int4.low_s <= int4.value_s <= int4.high_s
        return bf16.value_s / int4.value_s

    assert gain(1) > 1.5
    assert gain(8192) == pytest.approx(1, abs=0.01)
    least = 4.25 / 8 * MATRIX.n * MATRIX.k / 4.6e12
    assert TIMES.product("int4", 1, MATRIX).duration.low_s > least


def test_int4_is_the_fastest_calibrated_kernel_where_its_probes_reach() -> None:
    """It once was the bf16 product with fewer bytes, 1.3 to 2 times as fast as any kernel."""
    published = Sources(calibration=published_sources().calibration, spec=LINKED)
    times = operator_times(published, "int4")
    kernels = {}
    for provider in ("tinygemm", "triton", "triton_chained"):
        sizes = (np.array([x]) for x in (16.0, 8192.0, 4096.0))
        own = calibrated_model.narrow_times(published, provider, "int4_groupwise_g128", *sizes)
        kernels[provider] = own.total[0]
    decode, prefill = times.product("int4", 16, MATRIX), times.product("int4", 8192, MATRIX)
    assert decode.duration.value_s == min(kernels.values())
    assert decode.provider == min(kernels, key=lambda name: kernels[name])
    assert prefill.provider == "cublaslt (bf16)"
    bf16 = times.product("bf16", 8192, MATRIX)
    assert prefill.duration.value_s == pytest.approx(bf16.duration.value_s, rel=0.02)


def test_a_group_reads_the_weights_of_all_its_experts() -> None:
    one = TIMES.product("bf16", 1, MATRIX).duration.value_s
    many = TIMES.product("bf16", 32, MATRIX, 32).duration.value_s
    assert 20 * one < many < 32 * one


@pytest.mark.parametrize("recipe", ["bf16", "fp8_tensorwise", "int4"])
def test_a_groups_high_end_reads_the_rows_again(recipe: str) -> None:
    grouped = TIMES.product(recipe, 4096, MATRIX, 8).duration
    wide = TIMES.product(recipe, 512, LocalMatrix(n=8 * MATRIX.n, k=MATRIX.k)).duration
    assert (grouped.value_s, grouped.low_s) == (wide.value_s, wide.low_s)
    width = 1 if recipe == "fp8_tensorwise" else 2
    again = width * (4096 - 512) * MATRIX.k / 4.4e12
    assert grouped.high_s - wide.high_s == pytest.approx(again, rel=0.01)


def test_a_cast_is_that_of_the_fastest_provider() -> None:
    call = TIMES.cast("fp8_rowwise_dim0", 64, 4096)
    sizes = np.array([64.0]), np.array([4096.0])
    quick, slow = (
        calibrated_model.cast_times(SOURCES, provider, "fp8_rowwise_dim0", *sizes)
        for provider in ("torch_compile", "torch_eager")
    )
    assert quick.high is not None
    assert quick.total[0] < slow.total[0]
    assert call.duration.value_s == quick.total[0]
    assert call.duration.high_s == quick.high[0]
    assert call.bound_by == quick.bound_by[0]
    uncalibrated = TIMES.cast("fp8_tensorwise", 64, 4096)
    assert uncalibrated == TIMES.elementwise(5 * 64 * 4096 + 4), "its least bytes"


def test_bytes_move_at_the_copy_bandwidth_after_a_launch() -> None:
    call = TIMES.elementwise(4e9)
    assert call.duration.value_s == pytest.approx(1e-6 + 1e-3)
    assert call.duration.low_s == pytest.approx(1e-6 + 4e9 / 4.1e12)
    cast = TIMES.cast("fp8_rowwise_dim0", round(4e9 / 3 / 8192), 8192).duration
    assert call.duration.high_s == pytest.approx(max(cast.value_s, 1e-6 + 4e9 / 3.9e12))
    assert (call.bound_by, TIMES.elementwise(10).bound_by) == ("dram", "launch")
    small = TIMES.elementwise(3 * 8192).duration
    assert small.high_s == TIMES.cast("fp8_rowwise_dim0", 1, 8192).duration.value_s
    assert small.high_s > 1.5 * small.value_s
    calibration = calibrated()
    others = {k: v for k, v in calibration.constants.items() if not k.startswith("cast.")}
    bare = CalibratedOperators(calibration=replace(calibration, constants=others), spec=LINKED)
    assert bare.elementwise(4e9).duration.high_s == pytest.approx(1e-6 + 4e9 / 3.9e12)


def test_attention_is_bound_by_the_longer_of_math_and_cache() -> None:
    math = TIMES.attention(attention_work(1e12, 1))
    assert math.bound_by == "math"
    assert math.duration.value_s == pytest.approx(1e-6 + 1e-3 / ATTENTION_SHARE.value)
    read = TIMES.attention(attention_work(1, 4.5e9))
    assert read.bound_by == "dram"
    assert read.duration.value_s == pytest.approx(1e-6 + 1e-3)
    assert read.duration.high_s == pytest.approx(1e-6 + 4.5e9 / 4.4e12 / CACHE_SHARE)
    assert TIMES.attention(attention_work(1, 1)).bound_by == "launch"


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
def test_int4_reads_a_quarter_of_the_bytes_and_one_gpu_has_no_link(times: OperatorTimes) -> None:
    small, large = (seconds(times.product(r, 1, MATRIX)) for r in ("int4", "bf16"))
    assert 4.25 / 8 * 8192 * 4096 / 4.8e12 <= small < large
    assert times.link("auto", 1, 1).provenance is None


def test_on_a_described_device_torchaos_other_operators_are_the_wave_models() -> None:
    torchao = operator_times(DESCRIBED, "bf16", "torchao")
    assert torchao.attention(PREFILL) == WAVES.attention(PREFILL)
    assert torchao.norm(64, 4096) == WAVES.norm(64, 4096)
    assert torchao.product("bf16", 64, MATRIX) == TORCHAO.product("bf16", 64, MATRIX)
    datasheet = operator_times(DESCRIBED, "bf16", "datasheet")
    assert datasheet.attention(PREFILL) == DATASHEET.attention(PREFILL)


def test_waves_time_the_kernels_of_their_model() -> None:
    assert seconds(WAVES.attention(PREFILL)) == flash_attention(WAVE, CAUSAL).total_s
    assert seconds(WAVES.norm(64, 4096)) == normalisation(WAVE, 64, 4096, residual=True).total_s
    assert seconds(WAVES.activation(64, 8192, 4096)) == activation(WAVE, 64 * 4096).total_s
    link = WAVES.link("auto", 4, 2)
    assert seconds(link.collective("all_reduce", 4, 1e6)) == all_reduce(WAVE, 10**6, 4).total_s
    assert seconds(link.send(1e6)) == send(WAVE, 10**6).total_s


@pytest.mark.parametrize(
    ("sources", "recipe", "by", "says"),
    [
        (PLAIN, "bf16", "calibrated", "made-up has no calibration; another model of time"),
        (replace(SOURCES, spec=None), "bf16", "calibrated", "made-up has no file in config"),
        (Sources(calibration=calibration(), spec=LINKED), "bf16", "calibrated",
         r"has no dram_read_bytes_per_s; run `make study` again"),
        (PLAIN, "bf16", "wave", r"made-up\.yaml has no section 'wave'"),
        (PLAIN, "fp4", "datasheet", "'datasheet' of made-up does not know recipe 'fp4'"),
        (Sources(), "bf16", "torchao", "the device has no file in config/devices"),
    ],
)  # fmt: skip
def test_what_a_model_or_a_device_lacks_is_named_and_known_beforehand(
    sources: Sources, recipe: str, by: str, says: str
) -> None:
    assert estimable_recipes(SOURCES)
    assert not estimable_recipes(sources)
    with pytest.raises(PredictError, match=says):
        operator_times(sources, recipe, by)
