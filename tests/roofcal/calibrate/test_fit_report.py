"""The report on a fit: every recipe and regime, and the shapes it gets most wrong."""

import pytest

from roofcal.calibrate.fit_report import fit_report
from tests.roofcal.calibrate.probe_runs import write_run


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = write_run(tmp_path_factory.mktemp("run"), noise=0.05, family="tile_128x128")
    return fit_report(folder).splitlines()


def rows(report: list[str]) -> dict[str, list[float]]:
    """Regime -> count, mape, median, p95, bias."""
    start = next(i for i, line in enumerate(report) if "regime" in line) + 1
    end = next(i for i, line in enumerate(report) if "worst" in line)
    return {line.split()[0]: [float(x) for x in line.split()[1:]] for line in report[start:end]}


def test_the_regimes_add_up_to_all_probes(report: list[str]) -> None:
    by_regime = rows(report)
    counts = {regime: int(figures[0]) for regime, figures in by_regime.items()}
    assert counts.pop("all") == 64 == sum(counts.values())
    together = sum(by_regime[regime][0] * by_regime[regime][1] for regime in counts)
    assert together / 64 == pytest.approx(by_regime["all"][1], abs=0.1)


def test_the_error_is_about_the_noise_of_the_probes(report: list[str]) -> None:
    _, mape, median, p95, bias = rows(report)["all"]
    assert 2 < mape < 10
    assert median < p95
    assert abs(bias) < mape


def test_the_worst_shapes_are_sorted_and_say_both_times(report: list[str]) -> None:
    start = next(i for i, line in enumerate(report) if "worst" in line) + 1
    worst = report[start : start + 5]
    assert all("measured" in line and "predicted" in line for line in worst)
    off = [float(line.split("(")[1].split("%")[0]) for line in worst]
    assert abs(off[0]) >= abs(off[-1])


def test_the_family_of_tiles_is_named(report: list[str]) -> None:
    assert "gemm bf16 by made: tile_128x128" in report
    assert "cast fp8_rowwise_dim0 by made: plain" in report
