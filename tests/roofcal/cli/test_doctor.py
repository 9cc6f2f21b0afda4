"""`doctor`: a page for people, and environments for a cluster."""

import time
from pathlib import Path

import pytest

from roofcal.cli.main import main


@pytest.mark.usefixtures("checkout")
def test_doctor_says_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    assert main(["doctor"]) == 0
    assert time.perf_counter() - start < 5, "a person waits for it"
    said = capsys.readouterr().out
    for title in ("Processors", "Software", "Machine", "A study here"):
        assert title in said


def test_doctor_writes_the_environment_of_a_cluster_node(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--write-environment", "results"]) == 0
    path = Path(capsys.readouterr().out.strip().splitlines()[0])
    assert (checkout / path).is_file()
    assert path.name == "environment.jsonl"
