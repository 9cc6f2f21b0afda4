"""Every kernel compiles for every architecture: no spills, shared memory within the limit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.configs import ARCHITECTURES, SHARED_MEMORY_LIMIT, Architecture

SCRIPT = Path(__file__).with_name("compile_ahead.py")
ROOT = SCRIPT.parents[2]
STREAMS = ("read_sum", "fill", "copy")


def compiled(case: str, architecture: Architecture) -> dict[str, int]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(SCRIPT), case, str(architecture)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, f"{case} on {architecture}: {run.stderr[-2000:]}"
    report: dict[str, int] = json.loads(run.stdout)
    return report


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("case", [*STREAMS, "empty"])
def test_it_fits_and_does_not_spill(case: str, architecture: Architecture) -> None:
    report = compiled(case, architecture)
    assert report["spills"] == 0
    assert report["shared_bytes"] <= SHARED_MEMORY_LIMIT[architecture]
    if case in STREAMS:
        assert report["wide_accesses"] > 0, "a stream must move 16 bytes per thread and access"
