"""The wave model behind the interface of all models; tests of all models: test_models.py."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.devices import load_device, load_devices
from roofcal.models.wave import model
from roofcal.ops.time_models import Sources
from tests.paths import ROOT
from tests.roofcal.models.runs import DESCRIBED, SOURCES, SPEC, WAVE, cast, product
from tests.roofcal.models.wave_layer import product as gemm

H200 = ROOT / "config" / "devices" / "nvidia-h200.yaml"


def test_a_product_has_its_parts() -> None:
    (prediction,) = model.predict([product(4096, 4096, 4096)], SOURCES)
    alone = gemm(WAVE, "bf16", 4096, 4096, 4096)
    assert prediction.total_s == pytest.approx(alone.total_s)
    parts = (prediction.math_s, prediction.dram_s)
    assert parts == pytest.approx((alone.parts[alone.bound_by], alone.parts["dram"]))
    assert prediction.launch_s == WAVE.launch_s
    assert (prediction.model, prediction.bound_by, prediction.low_s) == (
        "wave",
        alone.bound_by,
        None,
    )


def test_it_knows_the_recipes_whose_rate_is_listed() -> None:
    assert "fp8_axiswise_slow_accum" in model.product_recipes(SOURCES)
    narrow = Sources(spec=replace(SPEC, wave=replace(WAVE, matrix_flops_per_clock={"bf16": 1.0})))
    assert model.product_recipes(narrow) == ("bf16",)


def test_it_needs_its_description_and_no_calibration() -> None:
    without = replace(SOURCES, spec=SPEC)
    assert model.product_recipes(without) == ()
    assert model.predict([product(64, 64, 64)], without) == []
    assert model.predict([product(64, 64, 64)], Sources(spec=DESCRIBED))


def test_an_h200_is_between_its_datasheet_and_three_times_that() -> None:
    sources = Sources(spec=load_device(H200))
    sides = np.array([4096.0, 8192.0, 16384.0])
    peak = 2 * sides**3 / 989.5e12
    ratio = model.product_times(sources, "bf16", sides, sides, sides).total / peak
    assert (ratio > 1.2).all()
    assert (ratio < 2).all()


def test_a_device_without_a_description_is_told_of_those_that_have_one() -> None:
    specs = load_devices(H200.parent)
    message = model.missing_description("nvidia-h20", specs)
    assert "no config/devices/nvidia-h20.yaml; did you mean 'nvidia-h200'?" in message
    assert "knows amd-mi300x, amd-mi325x, amd-mi355x, nvidia-b200, nvidia-b3" in message
    assert "nvidia-b200.yaml has no section 'wave'." in model.missing_description(
        "nvidia-b200", specs
    )
    assert "x.yaml. The wave model knows no device; " in model.missing_description("x", {})


def test_a_cast_moves_its_bytes() -> None:
    (prediction,) = model.predict([cast(4096, 4096, "fp8_rowwise_dim0")], SOURCES)
    assert prediction.total_s == pytest.approx(1e-6 + (3 * 4096**2 + 4 * 4096) / 2e12)
    assert prediction.bound_by == "dram"
