"""Two runs on disk compared: everything that differs, and what counts as a regression."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.compare.as_text import as_text
from roofcal.compare.comparison import compare
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement, PlanPoint
from tests.roofcal.compare.made_up import many, measurement, point, slower, write_run


def rows(seed: int) -> list[tuple[PlanPoint, Measurement]]:
    return [
        (o.point, measurement(o.point, [2.718281828**t for t in o.log_turns_s]))
        for o in many(seed=seed)
    ]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[RunFolder, RunFolder]:
    after = rows(1)
    after[0] = (after[0][0], slower(after[0][1], 1.05))
    gone, new = point(16 * 512), point(16 * 513)
    a = write_run(tmp_path / "a", [*rows(0), (gone, measurement(gone, [1.0, 1.0]))])
    b = write_run(tmp_path / "b", [*after, (new, measurement(new, [1.0, 1.0]))], 1.2e12, "128")
    return RunFolder.at(a), RunFolder.at(b)


def test_everything_that_differs_is_there_as_json(pair: tuple[RunFolder, RunFolder]) -> None:
    comparison = json.loads(json.dumps(compare(*pair), allow_nan=False))
    assert comparison["counts"] == {"SLOWER": 1, "FASTER": 0, "SAME": 59, "AMBIGUOUS": 0}
    first = comparison["points"][0]
    assert (first["verdict"], first["shape"]["m"]) == ("SLOWER", 512)
    assert comparison["regressions"] == [first["point_id"]]
    assert [row["constant"] for row in comparison["constants"]] == ["dram_read_bytes_per_s"]
    assert [(row["m_a"], row["m_b"]) for row in comparison["breakeven"]] == [(64, 128)]
    assert [len(comparison[name]) for name in ("appeared", "disappeared")] == [1, 1]


def test_a_limit_above_the_change_makes_it_no_regression(pair: tuple[RunFolder, RunFolder]) -> None:
    comparison = compare(*pair, limit=0.2)
    assert comparison["regressions"] == []
    assert comparison["counts"]["SLOWER"] == 1


def test_a_whole_group_that_is_slower_is_a_regression(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", rows(0))
    b = write_run(tmp_path / "b", [(p, slower(row, 1.05)) for p, row in rows(1)])
    comparison = compare(RunFolder.at(a), RunFolder.at(b))
    assert comparison["regressions"] == []
    assert comparison["regressed_groups"] == ["gemm: small"]


def cast(rows_of_matrix: int, **status: Any) -> tuple[PlanPoint, Measurement]:
    shape = {"rows": rows_of_matrix, "cols": 512}
    of = replace(point(recipe="fp8_tensorwise", provider="triton"), op="cast", shape=shape)
    return of, measurement(of, [] if status else [1e-3, 1.001e-3], **status)


def outcome(tmp_path: Path, a: list[Any], b: list[Any]) -> dict[str, Any]:
    before, after = (write_run(tmp_path / name, of) for name, of in (("a", a), ("b", b)))
    comparison = compare(RunFolder.at(before), RunFolder.at(after))
    assert as_text(comparison).splitlines()[-1] == comparison["conclusion"]
    return comparison


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        *((s, f"60 {s}") for s in ("failed", "incorrect", "unsupported", "out_of_memory")),
        ("ok", "60 not measured"),  # the op has a plan in B, and no row
    ],
)
def test_points_that_were_ok_and_are_not_are_a_regression(
    tmp_path: Path, status: str, counted: str
) -> None:
    b = [(p, measurement(p, [], status=status)) for p, _ in rows(0)]
    comparison = outcome(tmp_path, [*rows(0), cast(512)], [*b, cast(512)])
    assert comparison["outcome"] == "regression"
    assert comparison["conclusion"] == (
        f"regression: points that were ok in A and are not in B: {counted}"
    )
    assert sum(comparison["lost"].values()) == len(comparison["statuses"]) == 60


def test_points_that_broke_are_named_before_those_that_were_mended(tmp_path: Path) -> None:
    broken, mended = cast(16, status="failed"), cast(32)
    a = [*rows(0), cast(32, status="failed"), cast(16)]
    comparison = outcome(tmp_path, a, [*rows(1), mended, broken])
    assert [row["status_a"] for row in comparison["statuses"]] == ["ok", "failed"]
    assert comparison["lost"] == {"failed": 1}


def test_slower_points_and_broken_ones_share_the_last_line(tmp_path: Path) -> None:
    after = [(after[0], slower(after[1], 1.05)) for after in rows(1)[:1]] + rows(1)[1:]
    comparison = outcome(tmp_path, [*rows(0), cast(16)], [*after, cast(16, status="timeout")])
    assert comparison["conclusion"] == (
        "regression beyond 2.0%: 1 points; points that were ok in A and are not in B: 1 timeout"
    )


def test_what_b_does_not_plan_is_named_and_no_regression(tmp_path: Path) -> None:
    comparison = outcome(tmp_path, [*rows(0), cast(16), cast(32)], rows(1)[:50])
    assert comparison["outcome"] == "no regression"
    assert comparison["left_out"] == {"cast": 2}
    assert comparison["conclusion"] == (
        "no regression beyond 2.0%, without cast, which B does not plan"
    )
    assert len(comparison["disappeared"]) == 12
    assert "not planned in B: cast, of which 2 points are ok in A" in as_text(comparison)


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (rows(0), [cast(16)], "no point in common, without gemm, which B does not plan"),
        (rows(0), rows(0), "60 points are the same measurements in both, and no other has times"),
        ([cast(16, status="failed")], [cast(16)], "no point has a time of two turns or more"),
        (rows(0), [cast(16, status="ok")], "B is without samples"),
    ],
)
def test_where_nothing_can_be_compared_there_is_no_good_verdict(
    tmp_path: Path, a: list[Any], b: list[Any], why: str
) -> None:
    comparison = outcome(tmp_path, a, b)
    assert comparison["outcome"] == "nothing compared"
    assert comparison["conclusion"].startswith(f"nothing can be compared: {why}")


def test_the_text_says_the_same(pair: tuple[RunFolder, RunFolder]) -> None:
    text = as_text(compare(*pair))
    for part in (
        "60 points after the common shifts, beyond 2.0%: 1 SLOWER, 0 FASTER, 59 SAME",
        "SLOWER +5.0%",
        "kernel: gemm cublaslt bf16 512x512x512",
        "dram_read_bytes_per_s: 1e+12 (9.9e+11 to 1.01e+12) -> 1.2e+12",
        "fp8 forward, casts none, n=512 k=512: 64 -> 128",
    ):
        assert part in text
    assert text.endswith("regression beyond 2.0%: 1 points")
