"""The real command line, from a bare checkout to a report, on this machine's CPU."""

import shutil
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records
from roofcal.core.records import Measurement, PlanPoint, Session
from tests.workflow.checkout import Checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]


def test_every_planned_point_has_a_row_and_the_report_its_figures(
    study: Checkout, run: Path
) -> None:
    for path in study.folder.glob("config/sweeps/*.yaml"):
        planned = {p.point_id for p in read_records(run / f"plan/{path.stem}.jsonl", PlanPoint)}
        rows = read_records(run / f"measurements/{path.stem}.jsonl", Measurement)

        assert {row.point_id for row in rows} == planned
        assert {row.status for row in rows} == {"ok"}, [row.reason for row in rows]
    assert "<html" in study.text("results/report/report.html")
    assert list(study.folder.glob("results/report/figures/*/*/roofline.gemm.svg"))


def test_a_finished_study_is_measured_again_only_for_a_reason(
    study: Checkout, tmp_path: Path
) -> None:
    """One test, because it measures: two at once would wait for each other's device."""
    shutil.copytree(study.folder, tmp_path / "checkout", symlinks=True)
    copy = Checkout(folder=tmp_path / "checkout")
    (run,) = copy.run_folders()

    assert copy.pending() == set()
    copy.run("--report", "report.zip")
    assert copy.pending() == set()
    check_that_a_docstring_measures_nothing_again(copy, run)
    check_that_timing_measures_everything_again(copy, run)


def check_that_a_docstring_measures_nothing_again(study: Checkout, run: Path) -> None:
    """Snakemake starts the job, which finds every point in its journal."""
    file, bench = run / "measurements/probe_copy.jsonl", "roofcal/ops/probe_copy/bench.py"
    before = file.read_bytes()
    study.write(bench, study.text(bench).replace('"""', '"""New words. ', 1))

    assert "measure probe_copy" in study.pending()
    study.run(str(file.relative_to(study.folder)))

    assert file.read_bytes() == before


def check_that_timing_measures_everything_again(study: Checkout, run: Path) -> None:
    file = run / "measurements/probe_launch.jsonl"
    before = {session.session_id for session in read_records(file, Session)}
    study.replace("config/config.yaml", "cpu: {budget_s: 0.02,", "cpu: {budget_s: 0.05,")

    study.run(str(file.relative_to(study.folder)))

    assert before.isdisjoint(row.session_id for row in read_records(file, Measurement))
