"""README.md and docs/ show what the commands print, and their links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

import roofcal
from roofcal.cli.main import main
from roofcal.core.jsonl import read_records
from roofcal.core.records import Environment, PlanPoint
from roofcal.measure.session import too_few_devices
from roofcal.study.plan import PlanError, plan_op
from tests.paths import ROOT

PAGES: Final = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
}
EXAMPLE: Final = re.compile(
    r"^    \$ roofcal (.*)\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))+)", re.MULTILINE
)
EXAMPLES: Final = [found for page in PAGES.values() for found in EXAMPLE.findall(page)]
OF_THIS_MACHINE: Final = ("doctor", "time")
LEFT_OUT: Final = "..."  # a line of a page in the place of many
INDEXES: Final = ("docs/tutorials.md", "docs/how-to.md", "docs/reference.md", "docs/explanation.md")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        # `make verify` makes all tables of all publications again, and more
        pytest.param(*example, marks=pytest.mark.exhaustive if "verify" in example[0] else ())
        for example in EXAMPLES
        if example[0].split()[0] not in OF_THIS_MACHINE
    ],
    ids=lambda text: str(text)[:60],
)
def test_an_example_prints_what_the_page_shows(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.core.paths.RESULTS", Path("no-results-of-this-machine"))
    wanted = [line.removeprefix("    ") for line in shown.splitlines()]
    code = main(shlex.split(command))
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if not line.startswith("  note:")]
    if wanted[0].startswith("error: "):
        assert (code, printed.err.splitlines()) == (2, wanted)
    else:
        # 1: `compare` found a regression. 3: a publication from before manifests
        assert code in (0, 1, 3)
        if LEFT_OUT in wanted:
            gap = wanted.index(LEFT_OUT)
            tail = len(wanted) - gap - 1
            wanted, lines = wanted[:gap] + wanted[gap + 1 :], lines[:gap] + lines[-tail:]
        assert lines == wanted


def test_what_several_devices_refuse_reads_as_the_page_shows() -> None:
    file = next((ROOT / "reports/published/nvidia-h200").glob("*/environment.jsonl"))
    op, gpu = "all_gather_matmul", read_records(file, Environment)[0]
    sweep = {"shapes": [[1001, 64, 64]], "world_sizes": [2, 4, 8]}
    plan = {"op": op, "seed": 0, "models": {}, "sentinel": []}
    plan |= {"contenders": {"bf16": ["gemm_only"]}, "sweeps": {"mine": sweep}}
    with pytest.raises(PlanError) as caught:
        plan_op(plan, gpu)
    assert f"    error: {caught.value}\n" in PAGES["docs/all_gather.md"]
    large = PlanPoint(
        op=op, provider="gemm_only", recipe="bf16", shape={}, device=gpu.device, world_size=8
    )
    assert f"    {too_few_devices(large, gpu, 1)}\n" in PAGES["docs/all_gather.md"]


def test_the_pages_have_examples() -> None:
    assert len(EXAMPLES) >= 20


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "config/README.md"])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"(?:\]\(|src(?:set)?=\")(?!https?:)([^)#\s\"]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_every_page_has_one_place_in_the_site() -> None:
    listed = [line for index in INDEXES for line in PAGES[index].splitlines()]
    names = {page.removeprefix("docs/").removesuffix(".md") for page in PAGES}
    names -= {"README", "index", *(Path(page).stem for page in INDEXES)}
    assert {name: listed.count(name) for name in names} == dict.fromkeys(names, 1)


def test_paths_that_the_pages_name_exist() -> None:
    folders = "bench|config|docs|kernels|profiles|reports|roofcal|tests|tools|workflow"
    for page in ("CONTRIBUTING.md", *PAGES):
        text = (ROOT / page).read_text(encoding="utf-8")
        for path in re.findall(rf"`((?:{folders})/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_the_readme_is_short_and_setting_up_takes_exactly_two_commands() -> None:
    readme = PAGES["README.md"]
    assert len(readme.splitlines()) <= 150
    section = readme.split("## Measure your card")[1].split("##")[0]
    assert re.findall(r"^    (make \w+)", section, re.MULTILINE) == ["make study", "make test"]


def test_python_answers_what_the_readme_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.search(r"^    (roofcal\.predict\(.*\)\.seconds) +# (\S+)$", PAGES["README.md"], re.M)
    loaded = re.search(
        r"^    (roofcal\.load\(.*\)) +# every measured point", PAGES["README.md"], re.M
    )
    assert shown is not None
    assert loaded is not None

    assert eval(shown[1], {"roofcal": roofcal}) == pytest.approx(float(shown[2]), rel=1e-3)
    assert {"median_s", "predicted_s"} <= set(eval(loaded[1], {"roofcal": roofcal}).columns)
