"""A new process that becomes one command.

It imports this module, which imports no more than that: tests/campaign/scratch.py imports what
draws reports, 2.5 s of CPU for every command.
"""

import os
import resource
import sys
from pathlib import Path
from typing import Final

_MOST_ADDRESS_SPACE: Final = 8 << 30  # a command that runs away must not take the machine along


def be_command(folder: Path, arguments: list[str], log: Path, usage: Path) -> None:
    """Run one command; what it says goes to `log`, its largest memory to `usage`."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESS_SPACE, _MOST_ADDRESS_SPACE))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)
    from roofcal.cli.main import main

    try:
        sys.exit(main(arguments))
    finally:
        usage.write_text(str(_peak_bytes()))
        sys.stdout.flush()


def _peak_bytes() -> int:
    """The largest resident memory of this process, in bytes.

    getrusage would not do: Linux hands its maximum on through exec, so a test process that held
    2 GB to write a hostile file made every command after it seem as large.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10
