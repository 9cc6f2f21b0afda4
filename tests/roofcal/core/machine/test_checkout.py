"""Which commit runs."""

import subprocess
from pathlib import Path

import pytest

from roofcal.core.machine import checkout


def test_the_commit_outside_a_checkout_is_the_one_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("ROOFCAL_GIT_COMMIT", raising=False)
    assert checkout.checkout_commit() is None
    assert checkout.checkout_is_dirty() is None
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "c0ffee")
    assert checkout.checkout_commit() == "c0ffee"


def write(folder: Path, name: str) -> None:
    """Make a file, or change what is in it."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{file.read_text() if file.exists() else ''}x = 1\n")


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout of two commits, with code that measures and a README."""
    write(tmp_path, "roofcal/measure/timing.py")
    write(tmp_path, "README.md")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-q", "-m", "first"],
        ["tag", "old"],
        ["commit", "-q", "--allow-empty", "-m", "second"],
    ):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(checkout, "CHECKOUT", tmp_path)
    return tmp_path


def test_the_commit_that_is_given_counts_before_gits(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "old")
    assert (checkout.checkout_commit(), checkout.checkout_is_dirty()) == ("old", False)
    write(copied, "kernels/new.py")
    assert checkout.checkout_is_dirty() is True
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "c0ffee" * 6)  # which git does not know
    assert (checkout.checkout_commit(), checkout.checkout_is_dirty()) == ("c0ffee" * 6, None)


def test_changes_of_the_code_that_measures_count_and_no_others(
    copied: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROOFCAL_GIT_COMMIT", raising=False)
    (copied / "results").symlink_to(tmp_path_factory.mktemp("scratch"))  # they may lie elsewhere
    for name in ("config/shapes/mine.csv", "results/notes.txt", "README.md"):
        write(copied, name)
    assert checkout.checkout_is_dirty() is False
    for name in ("roofcal/measure/größe.py", "kernels/gemm/mine.py"):
        write(copied, name)
        assert checkout.checkout_is_dirty() is True
        (copied / name).unlink()
    write(copied, "roofcal/measure/timing.py")
    assert checkout.checkout_is_dirty() is True
