"""Products for the checks are spread over the plan; answers are counted from records."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, Measurement, PlanPoint, Protocol
from roofcal.core.visits.rows import is_sentinel
from roofcal.judge.layers import JUDGED_OPS, unlisted_points
from roofcal.measure.session import Job
from roofcal.study.config import Study, load_study
from tests.paths import ROOT
from tests.roofcal.judge.records import JUDGED
from tests.roofcal.measure.runs import environment, point
from tools import spot_checks


def product(m: int, recipe: str = "bf16", **changes: Any) -> PlanPoint:
    return point(recipe, shape={"m": m, "n": 8, "k": 8}, **changes)


def test_products_are_whole_groups_at_even_distances_and_no_sentinels() -> None:
    plan = [product(m, recipe) for m in range(1, 41) for recipe in ("bf16", "fp8_rowwise")]
    plan += [product(99, protocol=Protocol(method="alone")), product(98, sweeps=("sentinel",))]
    chosen = spot_checks.products_in_turns(plan, 20)
    sizes = [point.shape["m"] for point in chosen]
    assert len(chosen) == 20
    assert sizes == sorted(sizes)
    assert [sizes.count(m) for m in set(sizes)] == [2] * 10
    assert max(sizes) - min(sizes) >= 30


def test_both_sessions_of_a_repetition_have_sentinels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plans = {}

    def planned(folder: Path, points: list[PlanPoint], *_: Any) -> list[Measurement]:
        plans[folder.name] = [is_sentinel(point) for point in points]
        return []

    monkeypatch.setattr(spot_checks, "measured", planned)
    monkeypatch.setattr(spot_checks, "agreement_line", lambda *_: "")
    spot_checks.repeat_lines(tmp_path, replace(environment(), vendor="nvidia"))
    assert any(plans["first"])
    assert plans["first"] == plans["second"]
    assert not any(plans["alone"])


def test_times_in_turns_are_held_against_those_alone() -> None:
    alone = {("p", "bf16", "a"): 1.0, ("p", "bf16", "b"): 2.0, ("p", "bf16", "gone"): 3.0}
    in_turns = {("p", "bf16", "a"): 1.02, ("p", "bf16", "b"): 1.98}
    line = spot_checks.alone_line(in_turns, alone)
    assert line.startswith("alone, settled: 2 products; |in turns / alone - 1| 1.50% in the median")
    assert spot_checks.alone_line({}, alone) == "alone, settled: no product has both times"


def test_layers_of_a_seed_are_measured_op_by_op_and_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Records are those of seed 1 on an H100, in the place of a card that measures them."""
    here = read_single_record(JUDGED.environment_file, Environment)
    ops = []

    def record(folder: Path, points: list[PlanPoint], gpu: Environment, study: Study) -> None:
        assert folder == tmp_path / "seed1"
        assert study.timing("cuda")["alone_turn_s"] == 0.12
        assert study.timing("cuda")["visits"] == 1
        ops.append({point.op for point in points})
        run = spot_checks.run_folder(folder, gpu).folder
        shutil.copytree(JUDGED.folder, run, dirs_exist_ok=True)

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))
    monkeypatch.setattr(spot_checks, "measured", record)
    lines = spot_checks.unlisted_lines(tmp_path, here, 1)
    assert ops == [{op} for op in JUDGED_OPS]
    (head,) = [i for i, line in enumerate(lines) if line.startswith("seed 1 by ")]
    assert lines[head].startswith("seed 1 by reports/published/nvidia-h100-sxm/")
    assert len(lines[:head]) > 30, "the table of errors; tests of roofcal.judge hold its numbers"
    assert len(lines[head + 1 :]) == len(JUDGED_OPS), "a sentence of each op"


def test_parts_of_linears_on_an_h100_take_longer_alone() -> None:
    run = RunFolder.at(ROOT / "docs/layers/corpus_parts")
    linears = read_records(run.plan_file("linear"), PlanPoint)
    lines = spot_checks.sums_lines(run, linears)
    assert lines[:2] == [
        "bf16: the parts of 10 linears take +3.6% longer alone, standard deviation 2.0%",
        "fp8_axiswise: the parts of 10 linears take +5.0% longer alone, standard deviation 1.7%",
    ]
    unmeasured = [replace(linear, device="another") for linear in linears]
    (line,) = spot_checks.sums_lines(run, unmeasured)
    assert line.startswith("parts: no linear has a time and all of its parts; records are in ")
    planned = {op: read_records(run.plan_file(op), PlanPoint) for op in ("gemm", "cast")}
    # Tensorwise ones were measured beside a cast of w both ways at once, which is no more.
    for linear in (one for one in linears if one.recipe != "fp8_tensorwise"):
        for part in spot_checks.products_and_casts(linear):
            assert part in planned[part.op]


def test_linears_and_each_of_their_parts_once_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: dict[str, list[str]] = {}

    def planned(_: Path, points: list[PlanPoint], *__: Any) -> list[Measurement]:
        measured[points[0].op] = [point.point_id for point in points]
        return []

    monkeypatch.setattr(spot_checks, "measured", planned)
    monkeypatch.setattr(spot_checks, "sums_lines", lambda _run, linears: [f"{len(linears)}"])
    assert spot_checks.parts_lines(tmp_path, replace(environment(), vendor="nvidia")) == ["30"]
    assert {op: len(ids) for op, ids in measured.items()} == {"linear": 30, "gemm": 84, "cast": 66}
    assert all(len(set(ids)) == len(ids) for ids in measured.values())


def test_a_machine_without_a_gpu_draws_no_layers(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="this machine has none"):
        spot_checks.parts_lines(tmp_path, replace(environment(), vendor="cpu"))


def test_plan_and_records_are_named_by_the_op_of_the_points(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(spot_checks, "measure", jobs.append)
    points = unlisted_points(1, "made-up")["cast"]
    study = load_study(ROOT / "config", {"study": "quick"})
    spot_checks.measured(tmp_path, points, environment(), study)
    (job,) = jobs
    run = spot_checks.run_folder(tmp_path, environment())
    assert job.out == run.measurements_file("cast")
    assert read_records(job.plan, PlanPoint) == points
    assert job.plan == run.plan_file("cast")


@pytest.mark.parametrize("words", [["unlisted", "x"], ["repeat", "x", "--seed", "1"]])
def test_layers_need_a_seed_and_nothing_else_takes_one(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["spot_checks.py", *words])
    with pytest.raises(SystemExit):
        spot_checks.main()
    assert "unlisted needs --seed, and no other check takes one" in capsys.readouterr().err


def test_products_whose_interval_holds_zero_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        {"low": -0.01, "high": 0.02, "raw": 0.005, "repeat": 0},
        {"low": 0.01, "high": 0.03, "raw": 0.02, "repeat": 0},
        {"low": 0.01, "high": 0.03, "raw": 0.02, "repeat": 1},  # a sentinel
    ]
    monkeypatch.setattr(spot_checks, "compare", lambda *_: {"points": points})
    first = spot_checks.run_folder(Path("first"), environment())
    line = spot_checks.agreement_line(first, Path("second"))
    assert line.startswith("second session: 1 of 2 products (50%) have a 95 % interval")
    assert "|difference| 1.25% in the median" in line
