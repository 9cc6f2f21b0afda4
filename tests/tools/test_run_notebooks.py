"""The notebooks of the docs show what they print."""

from pathlib import Path

import nbformat
import pytest

from tools.run_notebooks import NOTEBOOKS, run_notebook, shown_text


def test_there_are_two_notebooks() -> None:
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path) -> None:
    """Each starts a Python of its own: 3 s of CPU."""
    shown = shown_text(nbformat.read(path, as_version=4))
    assert any(shown)
    assert shown_text(run_notebook(path)) == shown, "run python -m tools.run_notebooks"
