"""`compare`: what it prints, and exit codes 0, 1 and 2."""

import json
from pathlib import Path

import pytest

from tests.roofcal.cli.conftest import Shell
from tests.roofcal.compare.made_up import measurement, rows_of, write_run


@pytest.fixture
def runs(checkout: Path) -> Path:
    for name, seed, factor in (("e1", 0, 1.0), ("e2", 1, 1.0), ("slow", 2, 1.05)):
        write_run(checkout / "results/gpu" / name, rows_of(seed, [factor]))
    return checkout


@pytest.mark.usefixtures("runs")
def test_a_regression_is_exit_code_1_unless_the_limit_allows_it(shell: Shell) -> None:
    assert "0 SLOWER, 0 FASTER, 60 SAME" in shell.text("compare gpu/e1 e2")
    assert shell.run("compare e1 slow") == 1
    assert "regression beyond 2.0%: 1 point is slower in B" in shell.out
    shell.text("compare e1 slow --limit 0.1")
    assert shell.run("compare e1 results/gpu/slow --json --out moved.json") == 1
    found = json.loads(Path("moved.json").read_text())
    assert found["counts"]["SLOWER"] == 1
    assert len(found["points"]) == 60
    assert "error: 'e3' is no run" in shell.refused("compare e1 e3")


def test_broken_points_are_exit_code_1_and_nothing_in_common_2(runs: Path, shell: Shell) -> None:
    failed = [(p, measurement(p, [], status="failed")) for p, _ in rows_of(0, count=47)]
    write_run(runs / "results/gpu/broken", failed)
    assert shell.run("compare e1 broken") == 1
    last = "regression: points that were ok in A and are not in B: 47 failed"
    assert shell.out.splitlines()[-1] == last
    assert shell.run("compare e1 broken --json") == 1
    assert json.loads(shell.out)["conclusion"] == last
    assert shell.run("compare e1 e1") == 2
    assert "nothing can be compared: 60 points are the same" in shell.out
