"""Nothing is published from a dirty checkout, or with predictions beyond their limit."""

import subprocess
from pathlib import Path

import pytest

from roofcal.publish import freeze
from roofcal.study.schema import Publishing
from tests.paths import ROOT
from tests.roofcal.report.synthetic import whole_run

LOOSE = Publishing(largest_error=0.9)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git checkout with code and a publication, all of it committed."""
    folder = tmp_path / "checkout"
    for name in ("code.py", "more.py", "reports/published/d/e/table.csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of dirty checkouts elsewhere do not count."""
    made_up = whole_run()
    for op in made_up.points:
        made_up.sessions[op] = {"git_dirty": True, "git_commit": "0000000"}
    return made_up.write(tmp_path_factory.mktemp("run"))


def published(checkout: Path) -> Path:
    return checkout / "reports/published"


def test_changed_and_staged_files_are_named_three_at_most_with_the_way_out(checkout: Path) -> None:
    (checkout / "code.py").write_text("2\n")
    git(checkout, "rm", "more.py")
    for number in range(3):
        (checkout / f"new{number}.py").write_text("1\n")
    git(checkout, "add", ".")
    says = r"code\.py, more\.py, new0\.py and 2 more: not as in the commit.*git stash"
    with pytest.raises(freeze.TermsError, match=says):
        freeze.check_checkout(published(checkout))


def test_publications_and_untracked_files_do_not_count(checkout: Path) -> None:
    (published(checkout) / "d/e/table.csv").write_text("2\n")
    (published(checkout) / "d/e/new.csv").write_text("2\n")
    (checkout / "results.txt").write_text("2\n")
    freeze.check_checkout(published(checkout))


def test_an_untracked_file_counts_where_it_decides_numbers(checkout: Path) -> None:
    for name in ("roofcal/ops/mine.py", "config/devices/mine.yaml", "notes/roofcal/idea.txt"):
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with pytest.raises(
        freeze.TermsError, match=r"^config/devices/mine\.yaml, roofcal/ops/mine\.py: not"
    ):
        freeze.check_checkout(published(checkout))


def test_outside_a_checkout_nobody_can_tell_and_one_that_git_cannot_read_is_not_clean(
    tmp_path: Path,
) -> None:
    freeze.check_checkout(tmp_path / "reports/published")
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(freeze.TermsError, match="git cannot tell whether it is clean"):
        freeze.check_checkout(tmp_path / "reports/published")


def test_an_op_beyond_its_limit_is_named_with_error_and_limit(run: Path) -> None:
    errors_by_op = {op: (error, count) for op, error, count in freeze.hold_out_errors(run)}
    assert set(errors_by_op) == {"gemm", "cast"}  # probes are no study
    error, count = errors_by_op["gemm"]
    assert 0.02 < error < 0.10
    assert count > 30
    says = r"op gemm: the calibrated model is \d\.\d% off \(MAPE of \d+ study points\), the limit"
    with pytest.raises(
        freeze.TermsError, match=rf"{says} is 1\.0%\nop cast: (.|\n)*publish\.per_op"
    ):
        freeze.check_terms(run, Publishing(largest_error=0.01))
    with pytest.raises(freeze.TermsError, match=rf"{says} is 2\.0%\nfind"):
        freeze.check_terms(run, LOOSE.model_copy(update={"per_op": {"gemm": 0.02}}))
    own = {"gemm": 0.5, "cast": 0.6}
    freeze.check_terms(run, Publishing(largest_error=0.01, per_op=own))


@pytest.mark.exhaustive
def test_what_is_published_today_passes_the_limits_of_today() -> None:
    from roofcal.study.config import load_study

    limits = load_study(ROOT / "config").file.publish
    folders = sorted((ROOT / "reports/published").glob("*/*/environment.jsonl"))
    assert folders
    for folder in folders:
        for op, error, _ in freeze.hold_out_errors(folder.parent):
            assert error <= limits.per_op.get(op, limits.largest_error), f"{folder.parent}: {op}"
