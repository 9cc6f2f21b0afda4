"""`compare`: what it prints, and exit codes 0, 1 and 2."""

import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.roofcal.compare.made_up import many, measurement, slower, write_run


@pytest.fixture
def runs(checkout: Path) -> Path:
    for name, seed, factor in (("e1", 0, 1.0), ("e2", 1, 1.0), ("slow", 2, 1.05)):
        rows = [
            (o.point, measurement(o.point, [2.718281828**t for t in o.log_turns_s]))
            for o in many(seed=seed)
        ]
        rows[0] = (rows[0][0], slower(rows[0][1], factor))
        write_run(checkout / "results/gpu" / name, rows)
    return checkout


def test_nothing_slower_is_exit_code_0(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "gpu/e1", "e2"]) == 0
    assert "0 SLOWER, 0 FASTER, 60 SAME" in capsys.readouterr().out


def test_a_regression_is_exit_code_1_unless_the_limit_allows_it(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "e1", "slow"]) == 1
    assert "regression beyond 2.0%: 1 points" in capsys.readouterr().out
    assert main(["compare", "e1", "slow", "--limit", "0.1"]) == 0


def test_broken_points_are_exit_code_1_and_nothing_in_common_2(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [observed.point for observed in many(count=47)]
    failed = [(p, measurement(p, [], status="failed")) for p in points]
    write_run(runs / "results/gpu/broken", failed)
    assert main(["compare", "e1", "broken"]) == 1
    last = "regression: points that were ok in A and are not in B: 47 failed"
    assert capsys.readouterr().out.splitlines()[-1] == last
    assert main(["compare", "e1", "broken", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["conclusion"] == last
    assert main(["compare", "e1", "e1"]) == 2
    assert "nothing can be compared: 60 points are the same" in capsys.readouterr().out


def test_json_may_go_to_a_file(runs: Path) -> None:
    assert main(["compare", "e1", "results/gpu/slow", "--json", "--out", "moved.json"]) == 1
    found = json.loads(Path("moved.json").read_text())
    assert found["counts"]["SLOWER"] == 1
    assert len(found["points"]) == 60


def test_an_unknown_run_is_one_message_and_exit_code_2(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "e1", "e3"]) == 2
    assert "error: 'e3' is no run" in capsys.readouterr().err
