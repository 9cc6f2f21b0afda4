"""Snakemake in a process that has imported it, and none of the code it will run."""

import os
import signal
import sys
import uuid
from pathlib import Path

from tests.paths import ROOT

ENVIRONMENT = {
    "PATH": os.defpath,
    "HOME": os.environ.get("HOME", "/"),
    "ROOFCAL_LOCKS": uuid.uuid4().hex,  # neither waits for a study on this machine nor holds it up
}


def be_snakemake(folder: Path, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    """Be `python -m snakemake ARGUMENTS` in a checkout."""
    from snakemake.cli import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT)))]
    assert {"roofcal", "kernels"}.isdisjoint(sys.modules), "the checkout's code is to be imported"
    main(["--nocolor", *arguments])
