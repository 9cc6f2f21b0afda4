"""docs/: what they show is what the commands print, and their links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Final

import pytest

from roofcal.cli.main import main
from tests.paths import ROOT

PAGES: Final = {path.name: path.read_text("utf-8") for path in sorted(ROOT.glob("docs/*.md"))}
EXAMPLE: Final = re.compile(r"^    \$ python -m roofcal (.*)\n((?:    (?!\$ ).*\n)+)", re.MULTILINE)
EXAMPLES: Final = [found for page in PAGES.values() for found in EXAMPLE.findall(page)]


@pytest.mark.parametrize(("command", "shown"), EXAMPLES, ids=lambda text: str(text)[:60])
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
        assert code in (0, 3)  # 3: a publication from before manifests
        assert lines == wanted


def test_the_pages_are_there_and_have_examples() -> None:
    assert set(PAGES) == {"data.md", "extend.md", "method.md", "models.md", "read.md", "run.md"}
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p}" for p in PAGES)])
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"


def test_the_readme_links_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page for page in PAGES if f"](docs/{page})" not in text] == []


def test_paths_that_the_pages_name_exist() -> None:
    for page, text in PAGES.items():
        for path in re.findall(r"`((?:roofcal|config|reports|tests|profiles)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"docs/{page}: {path}"
