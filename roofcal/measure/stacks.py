"""Where a silent process is: from the stack that faulthandler wrote on a signal."""

import re
from collections.abc import Sequence
from typing import Final

_FRAME: Final = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$')
# Frames of one that waits: for other ranks, or for the device, which may wait for theirs.
_WAITING: Final = ("/torch/distributed/", "/torch/cuda/")


def innermost(text: str) -> tuple[str, bool]:
    """("<function> at <file>:<line>", whether it waits for others) of the main thread.

    faulthandler writes the main thread last, and of each thread the innermost call first. Without
    any frame the process did not answer: it is stopped, or stuck in the kernel.
    """
    blocks = text.strip().split("\n\n")
    frames = [found for line in blocks[-1].splitlines() if (found := _FRAME.match(line))]
    if not frames:
        return "gives no answer", False
    first = frames[0]
    where = f"{first['name']} at {'/'.join(first['file'].split('/')[-2:])}:{first['line']}"
    return where, any(part in first["file"] for part in _WAITING)


def hanging(texts: Sequence[str]) -> tuple[int | None, str]:
    """(the first rank that does not wait for others, where it is); (None, where all are)."""
    places = [innermost(text) for text in texts]
    for rank, (where, waits) in enumerate(places):
        if not waits:
            return rank, where
    return None, "; ".join(f"rank {rank}: {where}" for rank, (where, _) in enumerate(places))
