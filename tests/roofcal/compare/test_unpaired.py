"""Statuses, kernels, winners, points and versions that differ."""

from dataclasses import replace
from pathlib import Path

from roofcal.compare import unpaired
from roofcal.compare.observations import ObservedRun, observation
from roofcal.core.records import Measurement, PlanPoint
from tests.roofcal.compare.made_up import ENVIRONMENT, measurement, observed, point

Row = tuple[PlanPoint, Measurement]


def run(*rows: Row) -> ObservedRun:
    return observed([observation(*row) for row in rows])


def timed(of: PlanPoint, seconds: float, kernel: str = "k") -> Row:
    return of, measurement(of, [seconds, seconds], kernel_names=(kernel,))


def test_another_status_another_kernel_and_other_points_are_listed() -> None:
    refused = point(528), measurement(point(528), [], status="unsupported", kernel_names=())
    a = run(timed(point(512), 1.0, "old"), timed(point(528), 1.0), timed(point(544), 1.0))
    b = run(timed(point(512), 1.0, "new"), refused, timed(point(560), 1.0))

    (status,) = unpaired.changed_statuses(a, b)
    assert (status["shape"]["m"], status["status_a"], status["status_b"]) == (
        528,
        "ok",
        "unsupported",
    )
    (kernel,) = unpaired.renamed_kernels(a, b)
    assert (kernel["kernels_a"], kernel["kernels_b"]) == (["old"], ["new"])
    assert [row["shape"]["m"] for row in unpaired.only_in(b, a)] == [560]
    assert [row["shape"]["m"] for row in unpaired.only_in(a, b)] == [544]


def test_a_flipped_winner_is_clear_where_both_lead_clearly() -> None:
    bf16, fp8 = point(), point(recipe="fp8_axiswise")
    a = run(timed(bf16, 1.0), timed(fp8, 1.1))
    b = run(timed(bf16, 1.1), timed(fp8, 1.0))
    (row,) = unpaired.changed_winners(a, b, 0.02)
    assert (row["winner_a"], row["winner_b"]) == ("cublaslt bf16", "cublaslt fp8_axiswise")
    assert row["clear"]
    close = run(timed(bf16, 1.01), timed(fp8, 1.0))
    (row,) = unpaired.changed_winners(a, close, 0.02)
    assert not row["clear"]
    assert unpaired.changed_winners(a, a, 0.02) == []


def test_fields_of_the_environment_that_differ_are_listed() -> None:
    newer = replace(ENVIRONMENT, driver="590", torch="2.1")
    a, b = (ObservedRun(folder=Path("x"), environment=e, points={}) for e in (ENVIRONMENT, newer))
    assert unpaired.changed_environment(a, b) == [
        {"field": "driver", "a": None, "b": "590"},
        {"field": "torch", "a": "2", "b": "2.1"},
    ]
