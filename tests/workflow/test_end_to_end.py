"""The real command line, from a bare checkout to a report, on this machine's CPU."""

import os
from pathlib import Path

import pytest

from roofcal.ops import OPS
from roofcal.records import Measurement, PlanPoint, Session, read_records
from tests.workflow.checkout import Checkout, copy_checkout

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="measures a CPU; this has a GPU"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout whose small study has been measured for real."""
    checkout = copy_checkout(tmp_path_factory.mktemp("real") / "checkout")
    checkout.run()
    return checkout


def test_every_planned_point_of_every_op_has_a_row(study: Checkout) -> None:
    (run,) = study.run_folders()
    for op in OPS:
        planned = {p.point_id for p in read_records(run / f"plan/{op.name}.jsonl", PlanPoint)}
        rows = read_records(run / f"measurements/{op.name}.jsonl", Measurement)

        assert {row.point_id for row in rows} == planned
        assert {row.status for row in rows} == {"ok"}, [row.reason for row in rows]


def test_it_ends_in_a_report_and_a_second_run_has_nothing_to_do(study: Checkout) -> None:
    assert "<html" in study.text("results/report/report.html")
    assert study.pending() == set()


def test_a_docstring_in_a_kernel_starts_its_job_but_measures_no_point_again(
    study: Checkout,
) -> None:
    (run,) = study.run_folders()
    file = run / "measurements/probe_copy.jsonl"
    before = file.read_bytes()
    bench = "roofcal/ops/probe_copy/bench.py"
    study.write(bench, study.text(bench).replace('"""', '"""A new docstring. ', 1))

    assert "measure probe_copy" in study.pending()
    study.run()

    assert file.read_bytes() == before


def test_changed_timing_measures_every_point_again(study: Checkout) -> None:
    (run,) = study.run_folders()
    file = run / "measurements/probe_launch.jsonl"
    before = {session.session_id for session in read_records(file, Session)}
    study.replace("config/config.yaml", "cpu: {budget_s: 0.1,", "cpu: {budget_s: 0.11,")

    study.run(os.path.relpath(file, study.folder))

    assert before.isdisjoint(row.session_id for row in read_records(file, Measurement))
