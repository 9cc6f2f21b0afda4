"""The commit of this checkout: what a session and a manifest name as the code behind them."""

import os
import subprocess

from roofcal.core.paths import CHECKOUT


def checkout_commit() -> str | None:
    """The commit of this checkout: ROOFCAL_GIT_COMMIT where it is no git checkout, else None."""
    commit = _git("rev-parse", "HEAD")
    return os.environ.get("ROOFCAL_GIT_COMMIT") if commit is None else commit.strip()


def checkout_is_dirty() -> bool | None:
    """Whether files of this checkout differ from its commit; None outside a git checkout."""
    changes = _git("status", "--porcelain")
    return None if changes is None else bool(changes.strip())


def _git(*arguments: str) -> str | None:
    """What git prints; None where it fails or is not installed."""
    try:
        return subprocess.run(
            ["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
