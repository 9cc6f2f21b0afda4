"""Statuses, kernels, winners, points and versions that differ."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.compare import unpaired
from roofcal.compare.observations import ObservedRun
from roofcal.core.records import Measurement, PlanPoint
from roofcal.ops import BY_NAME
from tests.roofcal.compare.made_up import ENVIRONMENT, measurement, observation, observed, point

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


@pytest.mark.parametrize(
    ("op", "shape"),
    [("probe_copy", {"size_bytes": 1024}), ("cast", {"rows": 16, "cols": 16})],
)
def test_recipes_that_do_other_work_are_no_contenders(op: str, shape: dict[str, int]) -> None:
    """Writing is no rival of copying, nor a cast with one scale of one with a scale per row."""
    recipes = BY_NAME[op].recipes[:2]
    one, other = (replace(point(recipe=r), op=op, shape=shape) for r in recipes)
    a = run(timed(one, 1.0), timed(other, 1.2))
    b = run(timed(one, 1.2), timed(other, 1.0))
    assert unpaired.changed_winners(a, b, 0.02) == []

    rival = replace(one, provider="torch_eager")
    a = run(timed(one, 1.0), timed(rival, 1.2))
    b = run(timed(one, 1.2), timed(rival, 1.0))
    assert [row["winner_b"] for row in unpaired.changed_winners(a, b, 0.02)] == [
        f"torch_eager {recipes[0]}"
    ]


def test_a_provider_of_a_part_wins_nothing() -> None:
    spec = BY_NAME["all_gather_matmul"]
    whole, part = (
        replace(point(), op=spec.name, provider=name)
        for name in (spec.providers["cuda"][0], spec.partial[0])
    )
    a = run(timed(whole, 1.0), timed(part, 1.2))
    b = run(timed(whole, 1.2), timed(part, 1.0))
    assert unpaired.changed_winners(a, b, 0.02) == []


def test_a_lead_within_its_interval_is_close() -> None:
    def scattered(of: PlanPoint, seconds: float) -> Row:
        return of, measurement(of, [seconds * factor for factor in (0.8, 1.0, 1.2)])

    bf16, fp8 = point(), point(recipe="fp8_axiswise")
    a = run(scattered(bf16, 1.0), scattered(fp8, 1.1))
    b = run(scattered(bf16, 1.1), scattered(fp8, 1.0))
    (row,) = unpaired.changed_winners(a, b, 0.02)
    assert not row["clear"]


def test_fields_of_the_environment_that_differ_are_listed() -> None:
    newer = replace(ENVIRONMENT, driver="590", torch="2.1")
    a, b = (ObservedRun(folder=Path("x"), environment=e, points={}) for e in (ENVIRONMENT, newer))
    assert unpaired.changed_environment(a, b) == [
        {"field": "driver", "a": None, "b": "590"},
        {"field": "torch", "a": "2", "b": "2.1"},
    ]
