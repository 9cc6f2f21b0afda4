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


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git checkout of two commits."""
    for command in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "first"],
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
    (copied / "new").touch()
    assert checkout.checkout_is_dirty() is True


@pytest.mark.usefixtures("copied")
def test_a_given_commit_that_git_does_not_know_may_be_dirty_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROOFCAL_GIT_COMMIT", "c0ffee" * 6)
    assert (checkout.checkout_commit(), checkout.checkout_is_dirty()) == ("c0ffee" * 6, None)
