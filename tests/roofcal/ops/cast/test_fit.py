"""The fit of casts: constants found again, the family told apart, few probes left alone."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.probe_records import read_probes
from roofcal.fitting.probes import Probe
from roofcal.ops.cast.fit import CastFit, fit_casts, judged
from tests.roofcal.calibrate import probe_runs
from tests.roofcal.calibrate.probe_runs import CAST_TRUTH, ENVIRONMENT, write_run

CACHE = float(ENVIRONMENT.last_level_cache_bytes or 0)


def probes(folder: Path, noise: float = 0.0) -> list[Probe]:
    return read_probes(write_run(folder, noise=noise), "probe_cast")


def fitted(some: list[Probe]) -> CastFit:
    ((name, fit),) = fit_casts(some, CACHE, np.random.default_rng(0))
    assert name == "made.fp8_rowwise_dim0"
    return fit


def test_constants_are_found_again_within_their_intervals(tmp_path: Path) -> None:
    fit = fitted(probes(tmp_path, noise=0.02))
    assert fit.family == "plain"
    for name, constant in fit.constants.items():
        assert constant.value == pytest.approx(CAST_TRUTH[name], rel=0.1), name
        assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert fit.errors["mape"] < 0.05


def test_errors_are_of_probes_left_out(tmp_path: Path) -> None:
    quiet, loud = (fitted(probes(tmp_path / str(n), noise=n)) for n in (0.01, 0.2))
    assert quiet.errors["mape"] < 0.05 < loud.errors["mape"]
    assert loud.errors["log_p95"] > loud.errors["median"]


@pytest.mark.parametrize("family", ["padded_1024", "short_columns"])
def test_families_are_told_apart(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = probe_runs.casts(family=family)
    monkeypatch.setattr(probe_runs, "casts", lambda: made)
    assert fitted(probes(tmp_path, noise=0.02)).family == family


def test_seven_probes_are_too_few(tmp_path: Path) -> None:
    found = list(fit_casts(probes(tmp_path)[:7], CACHE, np.random.default_rng(0)))
    assert found == []


def test_probes_that_were_not_fitted_are_predicted_from_those_that_were(tmp_path: Path) -> None:
    some = probes(tmp_path)
    residuals = judged(some[:18], some[18:], CACHE)
    assert len(residuals) == 10
    assert np.abs(residuals).max() < 0.02
