"""Waiting for other processes: long enough on a loaded machine, and no longer than it takes."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], what: str, limit_s: float = 300) -> None:
    """Wait for a condition; fails after so many seconds."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit_s:g} s for {what}"
        time.sleep(0.05)
