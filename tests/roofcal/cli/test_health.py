"""`fleet` and `health` end with 1 where a card is slower, and say what is missing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Calibration, Ceiling, Measurement
from roofcal.health import panel
from roofcal.study import discover
from tests.paths import ROOT
from tests.roofcal.cli.conftest import Shell
from tests.roofcal.core.machine.stand_in_nvml import plug_in
from tests.roofcal.made_up_records import timed
from tests.roofcal.measure.runs import environment, point

CPU = environment()
KIND = f"{CPU.device}/{CPU.environment_id}"
Judge = Callable[[Path], int]
POINTS = [replace(point("fp32", sweeps=()), shape=dict.fromkeys("mnk", n)) for n in (64, 128, 256)]


def write_card(folder: Path, slower: float) -> Path:
    """Records of one card whose products are slower by a fraction."""
    samples = [(1 + slower) * (1e-3 + 1e-7 * n) for n in range(9)]
    rows = [timed(one, CPU, *samples) for one in POINTS]
    write_records(folder / "environment.jsonl", [CPU])
    write_records(folder / "plan/gemm.jsonl", POINTS)
    write_records(folder / "measurements/gemm.jsonl", rows)
    return folder


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six cards, of which that of node n3 is 8 % slower."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(ROOT / "config")
    root = tmp_path / "results/fleet" / KIND
    for node in range(6):
        write_card(root / f"n{node}" / "cpu", 0.08 if node == 3 else 0.001 * node)
    return root


def test_the_whole_text_of_a_fleet_whose_slow_card_stands_first(fleet: Path, shell: Shell) -> None:
    assert shell.run(f"fleet {fleet} --json") == 1
    assert json.loads(shell.out)[0]["card"] == "n3/cpu"
    path = fleet / "n5/cpu/measurements/gemm.jsonl"
    (first, second, _) = read_records(path, Measurement)
    lacked = replace(first, status="unsupported", reason="1 GPU", latency_samples_s=())
    failed = replace(second, status="failed", reason="died\ntrace", latency_samples_s=())
    write_records(path, [lacked, failed])
    assert shell.run(f"fleet {fleet}") == 1
    assert [line.rstrip() for line in shell.out.splitlines()] == [
        "1 of 5 cards is slower than the others; 1 failed a point; 1 could not be compared. The "
        "slowest is n3/cpu: gemm takes",
        "  7.8\xa0% longer than on healthy cards, beyond the limit of 2.0\xa0%; cause: "
        "unexplained.",
        "unexplained: measure it again with nothing beside it; if it stays slow, give it no jobs",
        "",
        "card           gemm  cause",
        "n5/cpu           -   fails a point",
        "n3/cpu       +7.8%!  unexplained",
        "  its limit  +2.0%",
        "n4/cpu       +0.2%   -",
        "  its limit  +2.0%",
        "n0/cpu       -0.2%   -",
        "  its limit  +2.8%",
        "n1/cpu       -0.1%   -",
        "  its limit  +3.7%",
        "n2/cpu       +0.0%   -",
        "  its limit  +3.9%",
        "n5/cpu fails gemm torch_cpu fp32 m=128,n=128,k=128 1 graph cold normal: failed (died)",
        "spread between 5 cards, gemm: 3.4% (2.0% to 9.7%)",
        "a job that waits for its slowest card loses, gemm: 3.2% on 2, 6.3% on 4, 7.8% on 5",
    ]


def test_the_page_names_the_slow_card_its_place_and_what_it_costs(
    fleet: Path, shell: Shell
) -> None:
    page = fleet / "fleet.html"
    assert shell.run(f"fleet {fleet} --page {page}") == 1
    text = page.read_text()
    assert "1 of 6 cards is slower than the others. The slowest is n3/cpu: gemm takes 7.7" in text
    assert "<b>unexplained</b> (1): n3/cpu" in text
    rows = text.split("Cards, the slowest first")[1].split('<th scope="row">')
    assert [row.partition("<")[0] for row in rows[1:3]] == ["n3", "n5"]
    heat_map = text.split("Nodes and slots")[1].split("</table>")[0]
    assert heat_map.count(' slow"') == 1
    assert "on 6" in text.split("What the slowest card costs")[1]
    before = text
    shell.run(f"fleet {fleet} --page {page}")
    assert page.read_text() == before


def test_a_fleet_that_cannot_be_compared_is_refused(fleet: Path, shell: Shell) -> None:
    other = replace(CPU, torch="9")
    write_records(fleet / "n5/cpu/environment.jsonl", [other])
    assert shell.run(f"fleet {fleet}") == 2
    assert f"{other.environment_id}: n5/cpu" in shell.err
    for node in (0, 1, 2, 5):
        (fleet / f"n{node}/cpu/environment.jsonl").unlink()
    assert shell.run(f"fleet {fleet}") == 2
    assert "2 card(s)" in shell.err


def test_a_node_of_another_name_is_refused(
    fleet: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert shell.run("health --every-card --node n2") == 2
    assert "this is n1, not n2" in shell.err


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> Judge:
    """The exit code of `health` on a card whose records are in a folder already."""

    def code_of(own: Path) -> int:
        monkeypatch.setattr(panel, "measure_card", lambda *_: own)
        monkeypatch.setattr(discover, "discover", lambda _: [CPU])
        return shell.run("health")

    return code_of


@pytest.mark.usefixtures("fleet")
def test_a_publication_of_another_environment_is_named(judge: Judge, shell: Shell) -> None:
    for name in ("torch0.9-1", "torch0.10-1"):
        write_card(Path("reports/published") / CPU.device / name, 0.0)
    assert judge(write_card(Path("out") / KIND / "n9/cpu", 0.0)) == 0
    said = f"compared with the publication {CPU.device}/torch0.10-1, measured in another"
    assert said in shell.err


@pytest.mark.parametrize(("slower", "code"), [(0.001, 0), (0.2, 1)])
def test_a_card_is_compared_with_its_fleet(
    fleet: Path, judge: Judge, slower: float, code: int
) -> None:
    assert judge(write_card(fleet / "n9/cpu", slower)) == code


def test_a_card_without_others_and_without_a_publication_is_recorded_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: Judge, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").symlink_to(ROOT / "config")
    assert judge(write_card(Path("results/fleet") / KIND / "n1/cpu", 0.0)) == 2
    assert "nothing to compare it with" in shell.err


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize(("slower", "code"), [(0.03, 0), (0.2, 1)])
def test_a_card_of_less_than_five_is_compared_with_its_publication(
    slower: float, code: int, others: int, judge: Judge
) -> None:
    write_card(Path("reports/published") / KIND, 0.0)
    # A study of this very card, which would call it healthy.
    study = write_card(Path("results") / KIND, slower)
    constant = Ceiling(value=1.0, ci95_low=1.0, ci95_high=1.0, unit="s", evidence="")
    fitted = Calibration(
        device=CPU.device, environment_id=CPU.environment_id, constants={"launch_graph_s": constant}
    )
    write_records(study / "calibration.jsonl", [fitted])
    for node in range(others):  # as slow, so that only the publication tells
        write_card(Path("out") / KIND / f"n{node}/cpu", slower)
    assert judge(write_card(Path("out") / KIND / "n9/cpu", slower)) == code


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("question", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMemoryInfo"])
def test_a_card_that_does_not_answer_is_no_slower_card(
    monkeypatch: pytest.MonkeyPatch, shell: Shell, question: str
) -> None:
    plug_in(monkeypatch).errors[question, "GPU-b"] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert shell.run("health") == 2
    error = shell.err.splitlines()[-1]
    assert error.startswith(("error: GPU 1 is left out", "error: GPU-b is left out"))
    assert "GPU is lost" in error
