"""The fit of narrow weights: the roof that binds is found again, few probes are left alone."""

from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.mixed import MixedFit, fit_mixed
from roofcal.calibrate.probes import read_probes
from roofcal.ops.mixed_gemm.time_model import evaluate
from roofcal.records import Protocol
from tests.roofcal.calibrate import probe_runs

RECIPE = "int4_groupwise_g64"
MEMORY = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "weights_per_s": 3e13, "flops_per_s": 6e14}
SLOTS = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "weights_per_s": 2e12, "flops_per_s": 6e14}


def seconds(truth: dict[str, float], sizes: np.ndarray) -> np.ndarray:
    return evaluate(truth, RECIPE, *sizes.T).total


def sizes(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    tokens = np.round(np.exp(source.uniform(0, 5.5, count)))
    n, k = (1024 * np.ceil(np.exp(source.uniform(0, 3.4, count))) for _ in range(2))
    return np.stack([tokens, n, k], axis=1)


def fitted(
    folder: Path, truth: dict[str, float], count: int = 24, noise: float = 0.02
) -> dict[str, MixedFit]:
    drawn = sizes(count, 5)
    named = [dict(zip("mnk", (int(s) for s in size), strict=True)) for size in drawn]
    points = [probe_runs._point("probe_mixed_gemm", RECIPE, size, Protocol()) for size in named]
    folder.mkdir(exist_ok=True)
    rows = list(zip(points, seconds(truth, drawn).tolist(), strict=True))
    probe_runs._write(folder, "probe_mixed_gemm", rows, noise, np.random.default_rng(1))
    probes = read_probes(folder, "probe_mixed_gemm")
    return dict(fit_mixed(probes, np.random.default_rng(0)))


@pytest.mark.parametrize(("truth", "binding"), [(MEMORY, "bytes_per_s"), (SLOTS, "weights_per_s")])
def test_the_roof_that_binds_is_found_again(
    tmp_path: Path, truth: dict[str, float], binding: str
) -> None:
    ((name, fit),) = fitted(tmp_path, truth).items()
    assert name == f"made.{RECIPE}"
    constant = fit.constants[binding]
    assert constant.value == pytest.approx(truth[binding], rel=0.1)
    assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert fit.errors["mape"] < 0.06


def test_new_shapes_are_predicted_within_the_noise(tmp_path: Path) -> None:
    (fit,) = fitted(tmp_path, SLOTS).values()
    values = {name: constant.value for name, constant in fit.constants.items()}
    unseen = sizes(50, 99)
    ratio = seconds(values, unseen) / seconds(SLOTS, unseen)
    assert np.abs(np.log(ratio)).mean() < 0.05


def test_errors_are_of_probes_left_out(tmp_path: Path) -> None:
    (quiet,) = fitted(tmp_path / "quiet", MEMORY, noise=0.01).values()
    (loud,) = fitted(tmp_path / "loud", MEMORY, noise=0.2).values()
    assert quiet.errors["mape"] < 0.05 < loud.errors["mape"]


def test_seven_probes_are_too_few(tmp_path: Path) -> None:
    assert fitted(tmp_path, MEMORY, count=7) == {}
