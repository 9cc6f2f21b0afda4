"""What the README shows is what the commands print, and it keeps its promise of two commands."""

import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofcal.cli.main import COMMANDS, main
from roofcal.core.jsonl import read_records
from roofcal.core.records import Environment, PlanPoint
from roofcal.measure.session import too_few_devices
from roofcal.study.plan import PlanError, plan_op
from tests.paths import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
OF_THIS_MACHINE = ("doctor",)
WITH_OTHER_CODES = ("compare", "verify")  # and their own tests below


def examples() -> Iterator[tuple[str, list[str]]]:
    """(command, what the README says it prints) of every example of the command line."""
    pattern = r"^    \$ python -m roofcal (.*)\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))+)"
    for command, shown in re.findall(pattern, TEXT, re.MULTILINE):
        if command.split()[0] not in (*OF_THIS_MACHINE, *WITH_OTHER_CODES):
            yield command, [line.removeprefix("    ") for line in shown.splitlines()]


def example(name: str) -> tuple[str, list[str]]:
    """(command, what the README says it prints) of the first example of a command."""
    found = re.search(
        rf"^    \$ python -m roofcal ({name} .*)\n((?:    .*\n|\n(?=    ))+)", TEXT, re.M
    )
    assert found is not None
    return found.group(1), [line.removeprefix("    ") for line in found.group(2).splitlines()]


@pytest.mark.parametrize(("command", "shown"), list(examples()), ids=lambda found: str(found)[:40])
def test_an_example_prints_what_the_readme_shows(
    command: str,
    shown: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))
    assert main(shlex.split(command)) == 0
    assert capsys.readouterr().out.splitlines() == shown


def test_two_real_cards_are_compared_as_the_readme_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = re.search(r"git archive (\S+)", TEXT)
    assert archived is not None
    asked = ["git", "archive", "--output", str(tmp_path / "first.tar"), archived.group(1)]
    if subprocess.run(asked, cwd=ROOT, check=False, capture_output=True).returncode:
        pytest.skip("a clone without the history that holds the first study")
    (tmp_path / "first").mkdir()
    with tarfile.open(tmp_path / "first.tar") as archive:
        archive.extractall(tmp_path / "first", filter="data")
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    monkeypatch.chdir(tmp_path)
    command, shown = example("compare")

    assert main(shlex.split(command)) == 1

    printed = capsys.readouterr().out.splitlines()
    gap = shown.index("...")
    assert printed[:gap] == shown[:gap]
    assert printed[-1:] == shown[gap + 1 :]


def test_publications_are_verified_as_the_readme_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    command, shown = example("verify")
    assert main(shlex.split(command)) in (0, 3)
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if not line.startswith("  note:")] == shown


def test_what_several_devices_refuse_reads_as_the_readme_shows() -> None:
    op, gpu = "all_gather_matmul", find_gpu()
    sweep = {"shapes": [[1001, 64, 64]], "world_sizes": [2, 4, 8]}
    plan = {"op": op, "seed": 0, "models": {}, "sentinel": None}
    plan |= {"contenders": {"bf16": ["gemm_only"]}, "sweeps": {"mine": sweep}}
    with pytest.raises(PlanError) as caught:
        plan_op(plan, gpu)
    assert f"    error: {caught.value}\n" in TEXT
    large = PlanPoint(
        op=op, provider="gemm_only", recipe="bf16", shape={}, device=gpu.device, world_size=8
    )
    assert f"    {too_few_devices(large, gpu, 1)}\n" in TEXT


def find_gpu() -> Environment:
    file = next((ROOT / "reports/published/nvidia-h200").glob("*/environment.jsonl"))
    return read_records(file, Environment)[0]


def test_there_are_examples() -> None:
    assert len(list(examples())) >= 3


def test_setting_up_takes_exactly_two_commands() -> None:
    section = TEXT.split("## Set up and run")[1].split("Python 3.11")[0]
    assert re.findall(r"^    (make \w+)", section, re.MULTILINE) == ["make study", "make test"]


def test_every_command_is_documented() -> None:
    for command in COMMANDS:
        assert f"`python -m roofcal {command}" in TEXT
