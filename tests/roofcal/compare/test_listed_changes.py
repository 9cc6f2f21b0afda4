"""Statuses, kernels, winners, versions, constants and break-even points that differ."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from roofcal.compare import listed_changes
from roofcal.compare.listed_changes import (
    moved_breakevens,
    moved_constants,
    read_breakeven,
    read_constants,
)
from roofcal.compare.observations import CompareError, ObservedRun
from roofcal.core.paths import RunFolder
from roofcal.core.records import Ceiling, Measurement, PlanPoint
from roofcal.ops import BY_NAME
from roofcal.ops.cast import model as cast_model
from tests.roofcal.compare.made_up import (
    ENVIRONMENT,
    measurement,
    observation,
    observed,
    point,
    write_run,
)

Row = tuple[PlanPoint, Measurement]


def run(*rows: Row) -> ObservedRun:
    return observed([observation(*row) for row in rows])


def timed(of: PlanPoint, seconds: float, kernel: str = "k") -> Row:
    return of, measurement(of, [seconds, seconds], kernel_names=(kernel,))


def test_another_status_another_kernel_and_other_points_are_listed() -> None:
    refused = point(528), measurement(point(528), [], status="unsupported", kernel_names=())
    a = run(timed(point(512), 1.0, "old"), timed(point(528), 1.0), timed(point(544), 1.0))
    b = run(timed(point(512), 1.0, "new"), refused, timed(point(560), 1.0))

    (status,) = listed_changes.changed_statuses(a, b)
    assert (status["shape"]["m"], status["status_a"], status["status_b"]) == (
        528,
        "ok",
        "unsupported",
    )
    (kernel,) = listed_changes.renamed_kernels(a, b)
    assert (kernel["kernels_a"], kernel["kernels_b"]) == (["old"], ["new"])
    assert [row["shape"]["m"] for row in listed_changes.only_in(b, a)] == [560]
    assert [row["shape"]["m"] for row in listed_changes.only_in(a, b)] == [544]


def test_a_flipped_winner_is_clear_where_both_lead_clearly() -> None:
    bf16, fp8 = point(), point(recipe="fp8_axiswise")
    a = run(timed(bf16, 1.0), timed(fp8, 1.1))
    b = run(timed(bf16, 1.1), timed(fp8, 1.0))
    (row,) = listed_changes.changed_winners(a, b, 0.02)
    assert (row["winner_a"], row["winner_b"]) == ("cublaslt bf16", "cublaslt fp8_axiswise")
    assert row["clear"]
    close = run(timed(bf16, 1.01), timed(fp8, 1.0))
    (row,) = listed_changes.changed_winners(a, close, 0.02)
    assert not row["clear"]
    assert listed_changes.changed_winners(a, a, 0.02) == []


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
    assert listed_changes.changed_winners(a, b, 0.02) == []

    rival = replace(one, provider="torch_eager")
    a = run(timed(one, 1.0), timed(rival, 1.2))
    b = run(timed(one, 1.2), timed(rival, 1.0))
    assert [row["winner_b"] for row in listed_changes.changed_winners(a, b, 0.02)] == [
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
    assert listed_changes.changed_winners(a, b, 0.02) == []


def test_a_lead_within_its_interval_is_close() -> None:
    def scattered(of: PlanPoint, seconds: float) -> Row:
        return of, measurement(of, [seconds * factor for factor in (0.8, 1.0, 1.2)])

    bf16, fp8 = point(), point(recipe="fp8_axiswise")
    a = run(scattered(bf16, 1.0), scattered(fp8, 1.1))
    b = run(scattered(bf16, 1.1), scattered(fp8, 1.0))
    (row,) = listed_changes.changed_winners(a, b, 0.02)
    assert not row["clear"]


def test_fields_of_the_environment_that_differ_are_listed() -> None:
    newer = replace(ENVIRONMENT, driver="590", torch="2.1")
    a, b = (ObservedRun(folder=Path("x"), environment=e, points={}) for e in (ENVIRONMENT, newer))
    assert listed_changes.changed_environment(a, b) == [
        {"field": "driver", "a": None, "b": "590"},
        {"field": "torch", "a": "2", "b": "2.1"},
    ]


KEY: tuple[str, ...] = ("fp8", "forward", "none", "512", "512")


def constant(value: float, half: float) -> Ceiling:
    return Ceiling(
        value=value, ci95_low=value - half, ci95_high=value + half, unit="s", evidence=""
    )


@pytest.mark.parametrize(
    ("b", "half", "listed"), [(1.10, 0.05, True), (1.06, 0.05, False), (1.01, 0.001, False)]
)
def test_a_difference_beyond_its_interval_and_the_threshold_is_listed(
    b: float, half: float, listed: bool
) -> None:
    rows = moved_constants({"c": constant(1.0, half)}, {"c": constant(b, half)}, 0.02)
    assert [row["constant"] for row in rows] == (["c"] if listed else [])


def test_a_constant_of_one_calibration_alone_has_no_other_value() -> None:
    (row,) = moved_constants({}, {"c": constant(1.0, 0.1)}, 0.02)
    assert (row["a"], row["b"], row["change"]) == (None, 1.0, None)


def test_a_constant_that_stands_for_a_name_has_no_change_in_percent() -> None:
    name = "cast.triton.fp8_tensorwise.cast_family"
    families = list(cast_model.FAMILIES)
    a, b = (
        {name: Ceiling(value=code, ci95_low=code, ci95_high=code, unit="code", evidence="")}
        for code in (1, 0)
    )
    (row,) = moved_constants(a, b, 0.02)
    assert (row["choice_a"], row["choice_b"], row["change"]) == (families[1], families[0], None)
    assert moved_constants(a, a, 0.02) == []


def test_a_run_without_a_calibration_has_no_constants(tmp_path: Path) -> None:
    assert read_constants(RunFolder.at(tmp_path)) is None
    constants = read_constants(RunFolder.at(write_run(tmp_path, [])))
    assert constants is not None
    assert list(constants) == ["dram_read_bytes_per_s"]


def test_a_map_is_read_and_nothing_means_never(tmp_path: Path) -> None:
    assert read_breakeven(RunFolder.at(tmp_path)) is None
    assert read_breakeven(RunFolder.at(write_run(tmp_path, [], m="64"))) == {KEY: (64, 64, 64)}
    assert read_breakeven(RunFolder.at(write_run(tmp_path, [], m=""))) == {KEY: (inf, inf, inf)}


def test_a_file_that_is_no_map_is_named(tmp_path: Path) -> None:
    (tmp_path / "breakeven.csv").write_text("recipe,n\nfp8,1\n")
    with pytest.raises(CompareError, match=r"breakeven\.csv"):
        read_breakeven(RunFolder.at(tmp_path))


def test_clear_moves_come_first() -> None:
    other: tuple[str, ...] = ("fp8", "forward", "none", "1024", "512")
    a = {other: (64.0, 32.0, 128.0), KEY: (64.0, 32.0, 128.0)}
    rows = moved_breakevens(a, {other: (96.0, 64.0, inf), KEY: (inf, 512.0, inf)})
    assert [(row["n"], row["m_a"], row["m_b"], row["clear"]) for row in rows] == [
        (512, 64, None, True),
        (1024, 64, 96, False),
    ]
    assert moved_breakevens(a, a) == []
