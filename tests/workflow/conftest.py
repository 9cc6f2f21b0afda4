"""Fixtures of the workflow tests: a fresh checkout, and one whose study has been run."""

import shutil
from pathlib import Path

import pytest

from tests.made_once import make_once
from tests.workflow.checkout import Checkout, copy_checkout, with_stand_ins


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """A checkout in which nothing has been run."""
    return with_stand_ins(copy_checkout(tmp_path / "checkout"))


@pytest.fixture(scope="session")
def _run_once(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    def run_study(folder: Path) -> None:
        said = with_stand_ins(copy_checkout(folder / "checkout")).run()
        (folder / "said").write_text(said)

    return Checkout(folder=make_once(tmp_path_factory, "study", run_study) / "checkout")


@pytest.fixture
def first_run_said(_run_once: Checkout) -> str:
    """What Snakemake said while it ran the study of `finished`."""
    return (_run_once.folder.parent / "said").read_text()


@pytest.fixture
def finished(_run_once: Checkout, tmp_path: Path) -> Checkout:
    """A checkout whose study has been run to its end on one CPU; a copy of its own per test."""
    shutil.copytree(_run_once.folder, tmp_path / "checkout", symlinks=True)
    return Checkout(folder=tmp_path / "checkout")
