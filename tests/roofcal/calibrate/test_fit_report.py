"""The report on a fit: every recipe and regime, and the shapes it gets most wrong."""

from pathlib import Path

import pytest

from bench.fit_report import fit_report
from tests.roofcal.calibrate.probe_runs import write_run


def test_errors_of_each_regime_and_the_worst_shapes_are_said(tmp_path: Path) -> None:
    report = fit_report(write_run(tmp_path, noise=0.05, family="tile_128x128")).splitlines()
    assert "cast fp8_rowwise_dim0 by made: plain" in report
    (heading,) = (line for line in report if line.startswith("gemm bf16 by made: "))
    start = report.index(heading) + 2
    end = next(i for i in range(start, len(report)) if "worst" in report[i])
    rows = [line.split() for line in report[start:end]]
    by_regime = {regime: [float(figure) for figure in figures] for regime, *figures in rows}
    count, mape, median, p95, bias = by_regime.pop("all")
    assert count == 64 == sum(figures[0] for figures in by_regime.values())
    together = sum(figures[0] * figures[1] for figures in by_regime.values())
    assert together / 64 == pytest.approx(mape, abs=0.1)
    assert 2 < mape < 10, "about the noise of the probes"
    assert median < p95
    assert abs(bias) < mape
    worst = report[end + 1 : end + 6]
    assert all("measured" in line and "predicted" in line for line in worst)
    off = [float(line.split("(")[1].split("%")[0]) for line in worst]
    assert abs(off[0]) >= abs(off[-1])
