"""The fit of one recipe: errors on probes left out, and a refusal of too few."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.probes import CalibrationError, read_probes
from roofcal.calibrate.products import fit_recipe
from tests.roofcal.calibrate.probe_runs import UNITS, write_run


def test_left_out_errors_grow_with_the_noise(tmp_path: Path) -> None:
    errors = []
    for noise in (0.0, 0.1):
        probes = read_probes(write_run(tmp_path / str(noise), noise=noise), "probe_math")
        fit = fit_recipe("bf16", probes, UNITS, 4.4e12, np.random.default_rng(0))
        errors.append(fit.errors["mape"])
    assert errors[0] < 0.05 < errors[1] < 0.3


def test_few_compute_units_have_no_tiles(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")
    fit = fit_recipe("bf16", probes, 2, None, np.random.default_rng(0))
    assert fit.family == "plain"
    assert set(fit.constants) == {
        "launch_s", "tile_flops_per_s", "k_latency_s_per_byte", "dram_bytes_per_s",
    }  # fmt: skip


def test_eleven_products_are_too_few(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")[:11]
    with pytest.raises(CalibrationError, match="11 products in probe_math, needs 12"):
        fit_recipe("bf16", probes, UNITS, 4.4e12, np.random.default_rng(0))
