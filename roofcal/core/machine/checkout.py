"""The commit of this checkout: what a session and a manifest name as the code behind them."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roofcal.core.paths import CHECKOUT

# What a commit has to say of how something was measured. What config/ and the rules of workflow/
# add arrives in the plan, the timing and the command, which a session records itself.
MEASURING_CODE: Final = ("kernels", "roofcal")


class GitError(ValueError):
    """Git cannot tell what differs from a commit; the message is its own."""


def checkout_commit() -> str | None:
    """The commit of this checkout; None where nobody knows it.

    ROOFCAL_GIT_COMMIT counts before what git says: files that were copied to another machine can
    lie in a git checkout of an older commit there.
    """
    if given := os.environ.get("ROOFCAL_GIT_COMMIT"):
        return given
    try:
        return _git(CHECKOUT, "rev-parse", "HEAD").strip()
    except GitError:
        return None


def checkout_is_dirty() -> bool | None:
    """Whether the measuring code has uncommitted changes; None where git cannot tell."""
    commit = checkout_commit()
    try:
        if commit is None:
            return None
        return bool(changed_files(CHECKOUT, commit, MEASURING_CODE, MEASURING_CODE))
    except GitError:
        return None


def changed_files(
    checkout: Path, commit: str, tracked: Sequence[str], untracked: Sequence[str]
) -> list[str]:
    """Files of a checkout that differ from a commit, relative to it and sorted.

    tracked: pathspecs of files that count where git knows them; untracked: of those that count
    where it does not. What git ignores never counts. Raises GitError where git fails.
    """
    names = ("--name-only", "--no-renames", "--relative", "-z")
    changed = _git(checkout, "diff", *names, commit, "--", *tracked)
    added = _git(checkout, "ls-files", "--others", "--exclude-standard", "-z", "--", *untracked)
    return sorted(set(filter(None, (changed + added).split("\0"))))


def _git(checkout: Path, *arguments: str) -> str:
    """What git prints; raises GitError where it fails or is not installed."""
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error).encode()
        raise GitError(os.fsdecode(reason).strip()) from None
    return os.fsdecode(done.stdout)
