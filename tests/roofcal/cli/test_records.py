"""`compare` and `claims`: what they print of records, and exit codes 0, 1 and 2."""

import json
import shutil
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.compare.made_up import measurement, rows_of, write_run
from tests.roofcal.report.synthetic import CPU, MadeUpRun, product, whole_run


@pytest.fixture
def runs(checkout: Path) -> Path:
    for name, seed, factor in (("e1", 0, 1.0), ("e2", 1, 1.0), ("slow", 2, 1.05)):
        write_run(checkout / "results/gpu" / name, rows_of(seed, [factor]))
    return checkout


@pytest.mark.usefixtures("runs")
def test_a_regression_is_exit_code_1_unless_the_limit_allows_it(shell: Shell) -> None:
    assert "0 slower and 0 faster by more than 2.0%, 60 the same" in shell.text("compare gpu/e1 e2")
    assert shell.run("compare e1 slow") == 1
    assert "B is slower by more than 2.0% on 1 of 60 points, at most by " in shell.out
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
    said = "B lacks 47 points that are ok in A: 47 failed"
    assert shell.out.splitlines()[0] == f"{said}."
    assert shell.run("compare e1 broken --json") == 1
    assert json.loads(shell.out)["conclusion"] == said
    assert shell.run("compare e1 e1") == 2
    assert "Nothing can be compared: 60 points are the same" in shell.out


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the records of a GPU and of a CPU."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    whole_run().write(tmp_path / "results")
    cpu = MadeUpRun(CPU)
    cpu.measure(product(64, 64, 64, provider="torch_cpu", device=CPU.device))
    cpu.write(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("records")
def test_every_device_with_records_gives_a_verdict_on_every_claim(shell: Shell) -> None:
    found = shell.json("claims")
    assert [one["device"] for one in found] == ["cpu-made-up", "nvidia-h200"]
    assert len({sum(one["counts"].values()) for one in found}) == 1
    by_id = {claim["claim"]: claim for claim in found[1]["claims"]}
    one = by_id["torchao-pr940-gemm-axiswise-fast-accum-8192"]
    assert one["verdict"] == "holds"
    assert one["ours_low"] <= one["ours"] <= one["ours_high"]
    assert one["printed"] == {"bf16_us": 1674, "fp8_us": 1092}
    assert by_id["torchao-roofline-launch"]["verdict"] == "does not hold"
    assert all(one["ours"] is None for one in found[0]["claims"])


def test_a_device_or_ledger_that_is_not_there_is_named(records: Path, shell: Shell) -> None:
    said = shell.refused("claims --device nvidia-h20")
    assert "nothing is measured or published of nvidia-h20" in said
    said = shell.refused("claims --ledger deepgem")
    assert "unknown ledger 'deepgem'; did you mean 'deepgemm'?" in said
    shutil.rmtree(records / "results")
    assert "nothing is measured or published" in shell.refused("claims")
    shutil.rmtree(records / "config/claims")
    assert "config/claims: holds no claims" in shell.refused("claims")
