"""Two runs on disk compared: everything that differs, and what counts as a regression."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.compare.as_text import Comparison
from roofcal.compare.comparison import changed_winners, compare
from roofcal.compare.observations import CompareError
from roofcal.core.jsonl import write_records
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Measurement, PlanPoint
from roofcal.ops import BY_NAME
from roofcal.ops.cast import model as cast_model
from tests.roofcal.compare.made_up import (
    ENVIRONMENT,
    Row,
    measurement,
    observations_of,
    pairs_of,
    point,
    rows_of,
    write_map,
    write_run,
)
from tests.roofcal.made_up_records import exactly

ROWS = rows_of(0)
AGAIN = rows_of(1)
BOTH = [1.0, 1.0]  # seconds of two turns


def compared(folder: Path, a: list[Row], b: list[Row], **how: Any) -> dict[str, Any]:
    before, after = (write_run(folder / name, of) for name, of in (("a", a), ("b", b)))
    return compare(RunFolder.at(before), RunFolder.at(after), **how)


def cast(rows_of_matrix: int, **status: Any) -> Row:
    shape = {"rows": rows_of_matrix, "cols": 512}
    of = replace(point(recipe="fp8_tensorwise", provider="triton"), op="cast", shape=shape)
    return of, measurement(of, [] if status else [1e-3, 1.001e-3], **status)


def test_everything_that_differs_is_there_as_json_and_in_the_text(tmp_path: Path) -> None:
    old, new, refused = point(16 * 512), point(16 * 513), point(16 * 514)
    a = [*ROWS, (old, measurement(old, BOTH)), (refused, measurement(refused, BOTH))]
    renamed = [(p, replace(row, kernel_names=("new",))) for p, row in rows_of(1, [1.05])[:1]]
    b = [
        *(renamed + AGAIN[1:]),
        (new, measurement(new, BOTH)),
        (refused, measurement(refused, [], status="unsupported")),
    ]
    write_run(tmp_path / "a", a)
    write_run(tmp_path / "b", b, 1.2e12, "128")
    runs = RunFolder.at(tmp_path / "a"), RunFolder.at(tmp_path / "b")
    write_records(runs[1].environment_file, [replace(ENVIRONMENT, driver="590", torch="2.1")])
    found = json.loads(json.dumps(compare(*runs), allow_nan=False))
    assert found["counts"] == {"SLOWER": 1, "FASTER": 0, "SAME": 59, "AMBIGUOUS": 0}
    first = found["points"][0]
    assert (first["verdict"], first["shape"]["m"]) == ("SLOWER", 512)
    assert found["regressions"] == [first["point_id"]]
    assert [row["constant"] for row in found["constants"]] == ["dram_read_bytes_per_s"]
    assert [(row["m_a"], row["m_b"]) for row in found["breakeven"]] == [(64, 128)]
    assert [row["shape"]["m"] for row in found["appeared"]] == [16 * 513]
    assert [row["shape"]["m"] for row in found["disappeared"]] == [16 * 512]
    (status,) = found["statuses"]
    assert (status["status_a"], status["status_b"]) == ("ok", "unsupported")
    (kernel,) = found["kernels"]
    assert (kernel["kernels_a"], kernel["kernels_b"]) == (["kernel"], ["new"])
    assert found["environment"] == [
        {"field": "driver", "a": None, "b": "590"},
        {"field": "torch", "a": "2", "b": "2.1"},
    ]
    text = Comparison(found).text()
    for part in (
        "driver: None -> 590\ntorch: 2 -> 2.1\n",
        "of 60 points, after the common shifts: 1 slower and 0 faster by more than 2.0%, 59 the",
        "slower +5.0% (95 %: +4.",
        "at the same clock, other kernel names: gemm cublaslt bf16 512x512x512",
        "gemm cublaslt bf16 8224x512x512: ok -> unsupported",
        "gemm cublaslt bf16 512x512x512: kernel -> new",
        "dram_read_bytes_per_s: 1e+12 (9.9e+11 to 1.01e+12) -> 1.2e+12",
        "fp8 forward, casts none, n=512 k=512: 64 -> 128",
    ):
        assert part in text
    first, do_first, do_then = (" ".join(text.split("\n\n")[0].split())).split(". ")
    assert first.startswith("B is slower by more than 2.0% on 1 of 60 points, at most by 5.0% (95 ")
    assert first.endswith(f"%), and {BROKEN.format('1 point')}1 unsupported")
    assert do_first.startswith("1 of 1 slower points and groups take more cycles than before: look")
    assert do_then.startswith("Why a point is not ok in B, B's report says ")
    assert compare(*runs, limit=0.2)["regressions"] == []
    assert compare(*runs, limit=0.2)["counts"]["SLOWER"] == 1


BROKEN = "lacks {} that are ok in A: "


def test_long_lists_are_cut_and_counted_and_missing_files_are_said(tmp_path: Path) -> None:
    points = [point(16 * i) for i in range(1, 40)]
    a = write_run(tmp_path / "a", [(point(), measurement(point(), BOTH))])
    b = write_run(tmp_path / "b", [(p, measurement(p, [1.0, 1.1])) for p in points])
    (a / "breakeven.csv").unlink()
    (b / "calibration.jsonl").unlink()
    text = Comparison(compare(RunFolder.at(a), RunFolder.at(b))).text()
    assert "points that B alone has: 38\n" in text
    assert "  ... and 28 more (--json has all)\n" in text
    unknown = "constants that moved; break-even points that moved"
    assert text.endswith(f"unknown, because one run has none: {unknown}")
    assert "common shifts: none, too few points\n" in text
    assert "the environments are the same\n" in text
    assert text.startswith(
        "B is nowhere certainly slower by more than 2.0%; the intervals of 1 of 1 point "
    )


def test_a_whole_group_that_is_slower_is_a_regression(tmp_path: Path) -> None:
    comparison = compared(tmp_path, ROWS, rows_of(1, factor=1.05))
    assert (comparison["regressions"], comparison["regressed_groups"]) == ([], ["gemm: small"])


def test_what_is_slower_by_its_clock_is_no_regression_and_is_said(tmp_path: Path) -> None:
    comparison = compared(tmp_path, ROWS, rows_of(1, factor=1.1, clock_hz=1.98e9 / 1.1))
    assert comparison["outcome"] == "no regression"
    said = comparison["conclusion"]
    assert said.startswith(
        "B is nowhere certainly slower by more than 2.0% but for gemm: small as a whole (+"
    )
    assert "by the clock or a state of the card" in said


def test_only_what_may_be_slower_than_the_limit_is_too_wide_to_tell(tmp_path: Path) -> None:
    rows = [(point(), measurement(point(), turns)) for turns in ([1.0, 1.05], [1.0, 1.07])]
    a, b = (RunFolder.at(write_run(tmp_path / str(i), [row])) for i, row in enumerate(rows))
    assert "too wide to tell" in compare(a, b)["conclusion"]
    assert "too wide to tell" not in compare(a, b, limit=2.0)["conclusion"]


def test_the_text_of_two_cards_says_first_how_they_differ_as_a_whole(tmp_path: Path) -> None:
    slow = [row for _, row in rows_of(1, [1.5, *[1.05, 1 / 1.05] * 4], factor=1.01)]
    renamed = [replace(slow[0], kernel_names=("x" * 200,)), *slow[1:]]
    b = [(p, row) for (p, _), row in zip(ROWS, renamed, strict=True)]
    before = write_run(tmp_path / "a", ROWS)
    after = write_run(tmp_path / "b", b, 1.017e12, card="GPU-2,GPU-3")
    write_map(before, {1024: ("64", "32", "128"), 512: ("64", "32", "128")})
    write_map(after, {1024: ("96", "64", ""), 512: ("", "512", "")})
    comparison = compare(RunFolder.at(before), RunFolder.at(after), threshold=0.005)
    lines = Comparison(comparison).text().splitlines()
    start = lines.index("") + 1
    said = " ".join(lines[:start])
    assert "; it ran on other cards than A, so this may be the card" in said
    assert "The versions are the same: `roofcal health` says whether the card of B is slow." in said
    other = comparison | {"environment": [{"field": "driver", "a": "1", "b": "2"}]}
    assert "measure both environments on one card." in Comparison(other).text(1000)
    assert "   on GPU-2, GPU-3" in lines
    assert lines[lines.index("points whose kernels have other names: 1") + 1].endswith(
        "512x512x512: kernel ->"
    )
    assert f"    {'x' * 200}" in lines
    mangled = [f"_ZN2at6native13reduce_kernelILi{size}EEEvT1_" for size in (512, 256)]
    (kernel,) = comparison["kernels"]
    kernel |= {"kernels_a": ["memset", *mangled[:1] * 2], "kernels_b": ["memset", *mangled[1:] * 2]}
    said = Comparison(comparison).text(1000)
    assert ": 2 x reduce_kernel of another build or template (--json has them)" in said
    kernel["kernels_b"] = [mangled[0], "new", "memset", "new"]
    said = Comparison(comparison).text(1000)
    assert ": reduce_kernel -> 2 x new (in both: 2 more)\n" in said
    kernel["kernels_b"] = kernel["kernels_a"][::-1]
    assert ": the same in another order (" in Comparison(comparison).text(1000)
    assert comparison["counts"]["SLOWER"] == 1
    assert "constants that moved: none, and 1 not certain (intervals overlap)" in lines
    heading = lines.index("break-even points that moved: 1, and 1 not certain (intervals overlap)")
    assert "n=512" in lines[heading + 1]


def test_another_code_of_our_kernel_is_named_beside_another_card(tmp_path: Path) -> None:
    def ours(of: PlanPoint, row: Measurement) -> Row:
        own = replace(of, provider="triton")
        return own, replace(row, point_id=own.point_id)

    a, b = ([ours(*row) for row in rows] for rows in (ROWS, rows_of(1, [1.05])))
    before = write_run(tmp_path / "a", a)
    after = write_run(tmp_path / "b", b, card="GPU-2", code="0ther")
    text = Comparison(compare(RunFolder.at(before), RunFolder.at(after))).text()
    assert "\nbeyond these shifts, one point in ten differs by more than: too few points\n" in text
    assert "on 60 points the code of our kernels differs, too, and these are judged" in text
    assert "at the same clock, other code of ours: gemm triton bf16 512x512x512, " in text


@pytest.mark.parametrize(
    ("status", "counted"),
    [
        ("unsupported", "60 unsupported"),
        ("ok", "60 not measured"),  # the op has a plan in B, and no row
    ],
)
def test_points_that_were_ok_and_are_not_are_a_regression(
    tmp_path: Path, status: str, counted: str
) -> None:
    """They are named before those that were mended."""
    b = [(p, measurement(p, [], status=status)) for p, _ in ROWS]
    a = [cast(32, status="failed"), *ROWS, cast(512)]
    comparison = compared(tmp_path, a, [cast(32), *b, cast(512)])
    assert comparison["outcome"] == "regression"
    assert comparison["conclusion"] == f"B {BROKEN.format('60 points')}{counted}"
    assert sum(comparison["lost"].values()) == 60
    assert [row["status_a"] for row in comparison["statuses"]] == [*["ok"] * 60, "failed"]


def test_what_b_does_not_plan_is_named_and_no_regression(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [*ROWS, cast(16), cast(32)], AGAIN[:50])
    assert comparison["outcome"] == "no regression"
    assert comparison["conclusion"] == (
        "B is nowhere certainly slower by more than 2.0%, without cast, which B does not plan"
    )
    assert len(comparison["disappeared"]) == 12
    assert "B does not plan cast, of which 2 points are ok in A" in Comparison(comparison).text()


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        (ROWS, [cast(16)], "no point in common, without gemm, which B does not plan"),
        (ROWS, ROWS, "60 points are the same measurements in both, and no other has times"),
        ([cast(16, status="failed")], [cast(16)], "no point has a time of two turns or more"),
        (ROWS, [], "B has no samples"),
    ],
)
def test_where_nothing_can_be_compared_there_is_no_good_verdict(
    tmp_path: Path, a: list[Row], b: list[Row], why: str
) -> None:
    comparison = compared(tmp_path, a, b)
    assert comparison["outcome"] == "nothing compared"
    assert comparison["conclusion"].startswith(f"nothing can be compared: {why}")
    assert Comparison(comparison).text(1000).startswith(f"N{comparison['conclusion'][1:]}.\n")


Times = tuple[list[float], list[float]]  # seconds of turns, of two contenders
FAST, SLOW = [1.0, 1.0], [1.2, 1.2]


def winners(contenders: tuple[PlanPoint, PlanPoint], a: Times, b: Times) -> list[Any]:
    """(who wins in A, who in B, whether clearly) if these are others."""
    rows = [
        [(p, measurement(p, t)) for p, t in zip(contenders, run, strict=True)] for run in (a, b)
    ]
    changed = changed_winners(pairs_of(*map(observations_of, rows)), 0.02)
    return [(row["winner_a"], row["winner_b"], row["clear"]) for row in changed]


def test_a_flipped_winner_is_clear_where_both_lead_clearly_with_their_intervals() -> None:
    rivals = point(), point(recipe="fp8_axiswise")
    names = "cublaslt bf16", "cublaslt fp8_axiswise"
    assert winners(rivals, (FAST, SLOW), (SLOW, FAST)) == [(*names, True)]
    assert winners(rivals, (FAST, SLOW), ([1.01, 1.01], FAST)) == [(*names, False)]
    assert winners(rivals, (FAST, SLOW), ([0.9, 1.1, 1.3], [0.8, 1.0, 1.2])) == [(*names, False)]
    assert winners(rivals, (FAST, SLOW), (FAST, SLOW)) == []


def test_only_who_does_the_same_work_contends() -> None:
    """Writing is no rival of copying, and who runs only a part of an op wins nothing."""
    of = replace(point(), op="probe_copy", shape={"size_bytes": 1024}, recipe="copy")
    write, rival = replace(of, recipe="write"), replace(of, provider="torch_eager")
    assert winners((of, write), (FAST, SLOW), (SLOW, FAST)) == []
    ((_, winner, _),) = winners((of, rival), (FAST, SLOW), (SLOW, FAST))
    assert winner == "torch_eager copy"
    spec = BY_NAME["all_gather_matmul"]
    whole, part = (
        replace(point(), op=spec.name, provider=name)
        for name in (spec.providers["cuda"][0], spec.partial[0])
    )
    assert winners((whole, part), (FAST, SLOW), (SLOW, FAST)) == []


def test_constants_that_differ_beyond_interval_and_threshold_are_listed(tmp_path: Path) -> None:
    """A choice of a name has no change in per cent, and a constant of one calibration no other."""
    name, families = "cast.triton.fp8_tensorwise.cast_family", list(cast_model.FAMILIES)
    of_a = {"far": exactly(1.0, half=0.05), "near": exactly(1.0, half=0.05)}
    of_a |= {"small": exactly(1.0, half=0.001), name: exactly(1, "code")}
    of_b = {"far": exactly(1.10, half=0.05), "near": exactly(1.06, half=0.05)}
    of_b |= {"small": exactly(1.01, half=0.001), name: exactly(0, "code")}
    of_b |= {"new": exactly(1.0, half=0.1)}
    a, b = (RunFolder.at(write_run(tmp_path / end, [])) for end in "ab")
    for run, constants in ((a, of_a), (b, of_b)):
        fitted = Calibration(
            device="made-up", environment_id=ENVIRONMENT.environment_id, constants=constants
        )
        write_records(run.calibration_file, [fitted])
    far, choice, new = compare(a, b)["constants"]
    assert (far["constant"], far["change"]) == ("far", pytest.approx(0.1))
    assert (choice["choice_a"], choice["choice_b"]) == (families[1], families[0])
    assert choice["change"] is None
    assert (new["a"], new["b"], new["change"]) == (None, 1.0, None)


def test_of_break_even_points_clear_moves_come_first_and_nothing_means_never(
    tmp_path: Path,
) -> None:
    a, b = (write_run(tmp_path / name, []) for name in "ab")
    runs = RunFolder.at(a), RunFolder.at(b)
    write_map(a, {1024: ("64", "32", "128"), 512: ("64", "32", "128"), 256: ("8", "8", "8")})
    write_map(b, {1024: ("96", "64", ""), 512: ("", "512", ""), 256: ("8", "4", "")})
    rows = compare(*runs)["breakeven"]
    assert [(row["n"], row["m_a"], row["m_b"], row["clear"]) for row in rows] == [
        (512, 64, None, True),
        (1024, 64, 96, False),
    ]
    (b / "breakeven.csv").write_text("recipe,n\nfp8,1\n")
    with pytest.raises(
        CompareError, match=r"b/breakeven\.csv: a line is no row of a break-even map"
    ):
        compare(*runs)
