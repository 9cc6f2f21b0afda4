"""`claims`: verdicts of every device with records, or one message and exit code 2."""

import shutil
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.report.synthetic import CPU, MadeUpRun, product, whole_run


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
    text = shell.text("claims --device nvidia-h200 --ledger deepgemm")
    assert text.startswith("nvidia-h200, driver580.1-")
    assert "0 hold, 0 do not hold, 0 are undecided, 1 cannot be tested here" in text
    assert "cpu-made-up" not in text


def test_a_device_or_ledger_that_is_not_there_is_named(records: Path, shell: Shell) -> None:
    said = shell.refused("claims --device nvidia-h20")
    assert "nothing is measured or published of nvidia-h20" in said
    said = shell.refused("claims --ledger deepgem")
    assert "unknown ledger 'deepgem'; did you mean 'deepgemm'?" in said
    shutil.rmtree(records / "results")
    assert "nothing is measured or published" in shell.refused("claims")
    shutil.rmtree(records / "config/claims")
    assert "config/claims: holds no claims" in shell.refused("claims")
