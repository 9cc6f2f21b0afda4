"""Two runs on disk compared: everything that differs, and what counts as a regression."""

import json
from pathlib import Path

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
