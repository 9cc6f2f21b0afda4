"""Predictions of narrow weights: per provider, the fastest where none is named, with intervals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofcal.ask.shape_limits import refusal
from roofcal.core.records import Calibration, PlanPoint
from roofcal.models import calibrated, datasheet, torchao
from roofcal.models.wave import model as wave
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.mixed_gemm.model import CONSTANTS, FAMILIES
from roofcal.ops.mixed_gemm.spec import OP
from roofcal.ops.time_models import Sources
from tests.roofcal.made_up_records import exactly, point_of
from tests.roofcal.models.runs import SOURCES, SPEC, WAVE

RECIPE = "int4_groupwise_g128"
FAST = {
    "narrow_family": float(list(FAMILIES).index("turned_once")),
    "fixed_s": 2e-6,
    "bytes_per_s": 4e12,
    "weights_per_s": 2e13,
    "flops_per_s": 6e14,
}
SLOW = FAST | {"weights_per_s": 1e12}


def _unit(name: str) -> str:
    return CONSTANTS[name].unit if name in CONSTANTS else "code"


def calibration(**providers: dict[str, float]) -> Calibration:
    constants = {
        f"mixed_gemm.{provider}.{RECIPE}.{name}": exactly(value, _unit(name))
        for provider, values in providers.items()
        for name, value in values.items()
    }
    constants["compute_units"] = exactly(132)
    errors = {f"mixed_gemm.{p}.{RECIPE}": {"log_p95": 0.1} for p in providers}
    ids: dict[str, Any] = {"device": "made-up", "environment_id": "e"}
    return Calibration(**ids, constants=constants, probe_errors=errors)


def point(provider: str = "", recipe: str = RECIPE, tokens: int = 16) -> PlanPoint:
    shape = {"m": tokens, "n": 28672, "k": 8192}
    return point_of("mixed_gemm", recipe, shape, provider=provider)


KNOWN = Sources(calibration=calibration(triton=FAST, tinygemm=SLOW), spec=None)


def test_a_provider_is_predicted_by_its_own_roofs() -> None:
    fast, slow = calibrated.predict([point("triton"), point("tinygemm")], KNOWN)
    assert (fast.bound_by, slow.bound_by) == ("dram", "slots")
    assert slow.total_s > 3 * fast.total_s
    assert slow.math_s == pytest.approx(28672 * 8192 * (1 / 1e12 + 2 * 16 / 6e14))


def test_a_kernel_for_many_tokens_answers_for_no_fewer() -> None:
    constants = FAST | {"turn_s": 1e-07, "joining_s": 1e-7}
    constants |= {"narrow_family": float(list(FAMILIES).index("ours_specialised"))}
    both = calibration(triton=SLOW, triton_specialised=constants)
    sources = Sources(calibration=both, spec=None)
    few, many = (calibrated.predict([point(tokens=m)], sources)[0].total_s for m in (16, 17))
    assert few == calibrated.predict([point("triton", tokens=16)], sources)[0].total_s
    named = [point("triton_specialised", tokens=m) for m in (16, 17)]
    (own,) = calibrated.predict(named, sources)
    assert many == own.total_s
    reason = refusal(OP, "triton_specialised", RECIPE, point(tokens=16).shape)
    assert reason == f"triton_specialised takes {RECIPE} with m of 17 and more, got 16"


def test_models_with_a_datasheet_count_the_stored_bytes_and_math_in_bf16() -> None:
    few, many = point("triton", tokens=1), point("triton", tokens=4096)
    work = OP.work(RECIPE, few.shape)
    models = {"datasheet": datasheet, "torchao": torchao, "wave": wave}
    by_model = {name: model.predict([few, many], SOURCES) for name, model in models.items()}
    for model, (small, large) in by_model.items():
        assert small.bound_by == "dram", model
        assert large.total_s > small.total_s
    assert by_model["datasheet"][0].total_s == pytest.approx(work.dram_bytes / 4.8e12)
    assert by_model["torchao"][0].total_s == pytest.approx(work.dram_bytes / 4.8e12 / 0.92)
    assert by_model["torchao"][1].total_s == pytest.approx(
        OP.work(RECIPE, many.shape).flops / 1e15 / 0.78
    )
    rate = WAVE.stream_bytes_per_s * WAVE.product_memory_fraction
    assert by_model["wave"][0].dram_s == pytest.approx(work.dram_bytes / rate)
    (in_bf16,) = wave.predict([point("cublaslt", recipe="bf16", tokens=4096)], SOURCES)
    assert by_model["wave"][1].bound_by == "math"
    assert by_model["wave"][1].math_s <= in_bf16.math_s


def test_models_without_a_rate_of_bf16_or_a_datasheet_leave_narrow_weights_out() -> None:
    spec = replace(SPEC, peak_flops_per_s={"fp8": 2e15})
    device = replace(WAVE, matrix_flops_per_clock={"fp8": 8000.0})
    for sources in (Sources(spec=replace(spec, wave=device)), KNOWN):
        for model in (datasheet, torchao, wave):
            assert model.predict([point("triton")], sources) == []


def test_the_fastest_answers_with_its_interval_and_similar_names_are_kept_apart() -> None:
    (anyone,), (fast,) = (calibrated.predict([point(p)], KNOWN) for p in ("", "triton"))
    assert anyone.total_s == fast.total_s
    ends = fast.total_s * np.exp(-0.1), fast.total_s * np.exp(0.1)
    assert (fast.low_s, fast.high_s) == pytest.approx(ends)
    both = calibration(triton=FAST, triton_chained=SLOW).constants
    assert calibrated_providers(both, "mixed_gemm", RECIPE) == ["triton", "triton_chained"]
    uncalibrated = [point("gemlite"), point("triton", "int4_groupwise_g32")]
    assert calibrated.predict(uncalibrated, KNOWN) == []
