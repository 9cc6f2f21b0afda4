"""The commit of this checkout: what a session and a manifest name as the code behind them."""

import os
import subprocess

from roofcal.core.paths import CHECKOUT


def checkout_commit() -> str | None:
    """The commit of this checkout; None where nobody knows it.

    ROOFCAL_GIT_COMMIT counts before what git says: files that were copied to another machine can
    lie in a git checkout of an older commit there.
    """
    return _given_commit() or _head()


def checkout_is_dirty() -> bool | None:
    """Whether files of this checkout differ from its commit; None where git does not know it."""
    commit = checkout_commit()
    changed = None if commit is None else _git("diff", "--name-only", commit, "--")
    added = _git("ls-files", "--others", "--exclude-standard")
    return None if changed is None or added is None else bool((changed + added).strip())


def _given_commit() -> str | None:
    return os.environ.get("ROOFCAL_GIT_COMMIT") or None


def _head() -> str | None:
    head = _git("rev-parse", "HEAD")
    return None if head is None else head.strip()


def _git(*arguments: str) -> str | None:
    """What git prints; None where it fails or is not installed."""
    try:
        return subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
