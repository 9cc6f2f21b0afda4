"""The fit of one recipe: errors on probes left out, and a refusal of too few."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.probe_records import read_probes
from roofcal.fitting.probes import CalibrationError
from roofcal.ops.gemm.fit import fit_recipe, judged
from roofcal.ops.gemm.model import FAMILIES, PLAIN_CONSTANTS
from tests.roofcal.calibrate.probe_runs import TRUTH, UNITS, write_run

TILED = [name for name in FAMILIES if name != "plain"]


def test_left_out_errors_grow_with_the_noise(tmp_path: Path) -> None:
    errors = []
    for noise in (0.0, 0.1):
        probes = read_probes(write_run(tmp_path / str(noise), noise=noise), "probe_math")
        fit = fit_recipe("bf16", probes, UNITS, 4.4e12, np.random.default_rng(0), families=TILED)
        errors.append(fit.errors["mape"])
    assert errors[0] < 0.05 < errors[1] < 0.3


@pytest.mark.parametrize("cores", [2, 8, 64])
def test_a_cpu_reaches_the_rate_of_all_its_cores(tmp_path: Path, cores: int) -> None:
    probes = read_probes(write_run(tmp_path, family="plain"), "probe_math")
    fit = fit_recipe("bf16", probes, cores, None, np.random.default_rng(0), families=["plain"])
    assert fit.family == "plain"
    assert set(fit.constants) == set(PLAIN_CONSTANTS)
    rate = cores * fit.constants["tile_flops_per_s"].value
    assert rate == pytest.approx(UNITS * TRUTH["tile_flops_per_s"], rel=0.05)
    assert fit.errors["mape"] < 0.02


def test_memory_of_a_cpu_may_be_far_below_its_streams(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path, family="plain"), "probe_math")
    stream = 3 * TRUTH["dram_bytes_per_s"]
    fit = fit_recipe("bf16", probes, UNITS, stream, np.random.default_rng(0), families=["plain"])
    found = fit.constants["dram_bytes_per_s"].value
    assert found == pytest.approx(TRUTH["dram_bytes_per_s"], rel=0.05)


def test_eleven_products_are_too_few(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")[:11]
    with pytest.raises(CalibrationError, match="11 products in probe_math, needs 12"):
        fit_recipe("bf16", probes, UNITS, 4.4e12, np.random.default_rng(0), families=TILED)


@pytest.mark.parametrize("family", ["medium_tile_split_k", "tile_128x128"])
def test_probes_that_were_not_fitted_are_predicted_from_those_that_were(
    tmp_path: Path, family: str
) -> None:
    probes = read_probes(write_run(tmp_path, family=family), "probe_math")
    residuals = judged("bf16", probes[:48], probes[48:], UNITS, 4.4e12, TILED)
    assert len(residuals) == 16
    assert np.abs(residuals).mean() < 0.03


def test_a_judged_fit_needs_twelve_products_too(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")
    with pytest.raises(CalibrationError, match="11 products"):
        judged("bf16", probes[:11], probes[11:], UNITS, 4.4e12, TILED)
