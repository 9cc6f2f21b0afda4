"""`report`: which folders it hands over, and where the page is."""

from pathlib import Path

import pytest

from roofcal.cli.main import main


def test_a_replay_names_the_folder_of_its_derived_files(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[tuple[Path, Path]]] = []

    def write_report(runs: list[tuple[Path, Path]], *_: object) -> list[str]:
        seen.append(runs)
        return ["Rates: bf16 700 TFLOP/s."]

    monkeypatch.setattr("roofcal.report.write.write_report", write_report)
    runs = ["--run", "here", "--run", "reports/published/a=results/replay/a"]
    assert main(["report", *runs, "--out", "page.html"]) == 0
    replay = (Path("reports/published/a"), Path("results/replay/a"))
    assert seen == [[(Path("here"), Path("here")), replay]]
    said = f"Rates: bf16 700 TFLOP/s.\nreport: {checkout / 'page.html'}\n"
    assert capsys.readouterr().out == said
