"""`claims`: verdicts of every device with records, or one message and exit code 2."""

import json
import shutil
from pathlib import Path

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT
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


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["claims", *arguments]) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["claims", *arguments]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    return message.err


@pytest.mark.usefixtures("records")
def test_every_device_with_records_gives_a_verdict_on_every_claim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(printed(capsys, "--json"))
    assert [one["device"] for one in found] == ["cpu-made-up", "nvidia-h200"]
    assert len({sum(one["counts"].values()) for one in found}) == 1
    by_id = {claim["claim"]: claim for claim in found[1]["claims"]}
    one = by_id["torchao-pr940-gemm-axiswise-fast-accum-8192"]
    assert one["verdict"] == "holds"
    assert one["ours_low"] <= one["ours"] <= one["ours_high"]
    assert one["printed"] == {"bf16_us": 1674, "fp8_us": 1092}
    assert by_id["torchao-roofline-launch"]["verdict"] == "does not hold"
    assert all(one["ours"] is None for one in found[0]["claims"])


@pytest.mark.usefixtures("records")
def test_one_device_and_one_ledger_may_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--device", "nvidia-h200", "--ledger", "deepgemm")
    assert text.startswith("nvidia-h200, driver580.1-")
    assert "0 hold, 0 do not hold, 1 cannot be tested here" in text
    assert "cpu-made-up" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--device", "nvidia-h20"], "nothing is measured or published of nvidia-h20"),
        (["--ledger", "deepgem"], "unknown ledger 'deepgem'; did you mean 'deepgemm'?"),
    ],
)
@pytest.mark.usefixtures("records")
def test_a_mistake_is_one_message(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in fails(capsys, *arguments)


UNKNOWN_NAMES = {  # (text of a claim, text in its place) -> part of the message
    ("op: gemm", "op: gem"): "peak: unknown op 'gem'; did you mean 'gemm'?",
    ("{recipe:", "{recip:"): "points: unknown column 'recip'; did you mean 'recipe'?",
    ("_128x128}", "_128x12}"): "did you mean 'fp8_blockwise_128x128'?",
    ("pick: fastest", "pik: fastest"): "pik: unknown key; did you mean 'pick'?",
}


@pytest.mark.parametrize(("change", "says"), UNKNOWN_NAMES.items())
def test_an_expression_with_an_unknown_name_is_one_message(
    records: Path, change: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records / "config/claims/deepgemm.yaml"
    path.write_text(path.read_text().replace(*change))
    message = fails(capsys)
    assert message.count("\n") == 1
    assert message.startswith("error: config/claims/deepgemm.yaml: ")
    assert says in message


def test_without_claims_or_records_there_is_nothing_to_say(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(records / "results")
    assert "nothing is measured or published" in fails(capsys)
    shutil.rmtree(records / "config/claims")
    assert "config/claims: holds no claims" in fails(capsys)
