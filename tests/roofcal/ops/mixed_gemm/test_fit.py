"""The fit of narrow weights: the roof that binds is found again, few probes are left alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.probe_records import read_probes
from roofcal.core.records import Protocol
from roofcal.fitting import bootstrap
from roofcal.fitting.probes import Probe
from roofcal.ops.mixed_gemm.fit import Machine, MixedFit, fit_mixed, judged
from roofcal.ops.mixed_gemm.model import FAMILIES, evaluate
from tests.roofcal.calibrate import probe_runs

RECIPE, OTHER = "int4_groupwise_g64", "int4_groupwise_g32"
MACHINE = Machine(compute_units=132, dram_bytes_per_s=4e12, tiled=True)
PLAIN = "no_blocks"
TILED = "tiles"
MEMORY = {"fixed_s": 2e-6, "bytes_per_s": 3.6e12, "weights_per_s": 3e13, "flops_per_s": 6e14}
SLOTS = {"fixed_s": 2e-6, "bytes_per_s": 3.6e12, "weights_per_s": 2e12, "flops_per_s": 6e14}
BLOCKS = SLOTS | {"weights_per_s": 7e12, "block_columns": 1500.0}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of constants matter little here, and take most of the time."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 20)


def seconds(
    truth: dict[str, float], sizes: np.ndarray, family: str = PLAIN, recipe: str = RECIPE
) -> np.ndarray:
    m, n, k = sizes.T
    return evaluate(truth, family, MACHINE.compute_units, recipe, (m, n, k)).total


def sizes(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    tokens = np.round(np.exp(source.uniform(0, 5.5, count)))
    n, k = (1024 * np.ceil(np.exp(source.uniform(0, 3.4, count))) for _ in range(2))
    return np.stack([tokens, n, k], axis=1)


def made(
    folder: Path,
    truths: dict[str, dict[str, float]],
    count: int = 24,
    noise: float = 0.02,
    family: str = PLAIN,
) -> list[Probe]:
    """Probes of a provider whose recipes have these constants."""
    drawn = sizes(count, 5)
    named = [dict(zip("mnk", (int(s) for s in size), strict=True)) for size in drawn]
    rows = []
    for recipe, truth in truths.items():
        points = [probe_runs._point("probe_mixed_gemm", recipe, size, Protocol()) for size in named]
        rows += list(zip(points, seconds(truth, drawn, family, recipe).tolist(), strict=True))
    folder.mkdir(exist_ok=True)
    probe_runs._write(folder, "probe_mixed_gemm", rows, noise, np.random.default_rng(1))
    return read_probes(folder, "probe_mixed_gemm")


def fitted(
    folder: Path,
    truth: dict[str, float],
    count: int = 24,
    noise: float = 0.02,
    family: str = PLAIN,
) -> dict[str, MixedFit]:
    probes = made(folder, {RECIPE: truth}, count, noise, family)
    return dict(fit_mixed(probes, MACHINE, np.random.default_rng(0)))


@pytest.mark.parametrize(("truth", "binding"), [(MEMORY, "bytes_per_s"), (SLOTS, "weights_per_s")])
def test_the_roof_that_binds_is_found_again(
    tmp_path: Path, truth: dict[str, float], binding: str
) -> None:
    ((name, fit),) = fitted(tmp_path, truth).items()
    assert name == f"made.{RECIPE}"
    assert fit.family == PLAIN
    constant = fit.constants[binding]
    assert constant.value == pytest.approx(truth[binding], rel=0.1)
    assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert fit.errors["mape"] < 0.06


def test_tiles_of_rows_are_found_with_what_a_block_costs(tmp_path: Path) -> None:
    (fit,) = fitted(tmp_path, BLOCKS, family=TILED).values()
    assert FAMILIES[fit.family].splits
    assert fit.constants["block_columns"].value == pytest.approx(1500, rel=0.3)
    assert fit.constants["weights_per_s"].value == pytest.approx(7e12, rel=0.15)


def test_new_shapes_are_predicted_within_the_noise(tmp_path: Path) -> None:
    (fit,) = fitted(tmp_path, SLOTS).values()
    values = {name: constant.value for name, constant in fit.constants.items()}
    unseen = sizes(50, 99)
    ratio = seconds(values, unseen, fit.family) / seconds(SLOTS, unseen)
    assert np.abs(np.log(ratio)).mean() < 0.05


def test_recipes_of_a_provider_share_its_start_and_memory_alone(tmp_path: Path) -> None:
    probes = made(tmp_path, {RECIPE: SLOTS, OTHER: SLOTS | {"weights_per_s": 1e12}})
    found = dict(fit_mixed(probes, MACHINE, np.random.default_rng(0)))
    both, other = (found[f"made.{recipe}"] for recipe in (RECIPE, OTHER))
    for name in ("fixed_s", "bytes_per_s"):
        assert both.constants[name] == replace(
            other.constants[name], evidence=both.constants[name].evidence
        )
    assert both.constants["weights_per_s"].value == pytest.approx(2e12, rel=0.05)
    assert other.constants["weights_per_s"].value == pytest.approx(1e12, rel=0.05)
    assert both.errors["log_p95"] == other.errors["log_p95"]
    assert both.errors["count"] == 24


def test_memory_is_no_faster_than_streams_have_measured(tmp_path: Path) -> None:
    probes = made(tmp_path, {RECIPE: MEMORY})
    slow = replace(MACHINE, dram_bytes_per_s=2e12)
    (fit,) = dict(fit_mixed(probes, slow, np.random.default_rng(0))).values()
    assert fit.constants["bytes_per_s"].value <= 1.02 * 2e12
    free = replace(MACHINE, dram_bytes_per_s=None)
    (fit,) = dict(fit_mixed(probes, free, np.random.default_rng(0))).values()
    assert fit.constants["bytes_per_s"].value == pytest.approx(3.6e12, rel=0.1)


def test_our_kernels_have_tiles_and_processors_have_none() -> None:
    assert MACHINE.families("tinygemm") == list(FAMILIES)
    assert MACHINE.families("triton") == MACHINE.families("triton_chained")
    assert all(FAMILIES[name].splits for name in MACHINE.families("triton"))
    assert replace(MACHINE, tiled=False).families("triton") == [PLAIN]
    assert Machine.of(probe_runs.ENVIRONMENT, 4e12) == MACHINE
    processor = replace(probe_runs.ENVIRONMENT, vendor="cpu")
    assert Machine.of(processor, 4e12) == replace(MACHINE, tiled=False)


def test_errors_are_of_probes_left_out(tmp_path: Path) -> None:
    (quiet,) = fitted(tmp_path / "quiet", MEMORY, noise=0.01).values()
    (loud,) = fitted(tmp_path / "loud", MEMORY, noise=0.2).values()
    assert quiet.errors["mape"] < 0.05 < loud.errors["mape"]


def test_probes_judge_a_fit_of_others(tmp_path: Path) -> None:
    probes = made(tmp_path, {RECIPE: SLOTS})
    assert np.abs(judged(probes[:16], probes[16:], MACHINE)).mean() < 0.1


def test_seven_probes_are_too_few(tmp_path: Path) -> None:
    assert fitted(tmp_path, MEMORY, count=7) == {}
