"""The int4 kernels compile for every architecture: no spills, shared memory within the limit.

The kernels in Gluon are for sm_90 alone; elsewhere kernels.int4.plain runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.common.architecture import ARCHITECTURES, SHARED_MEMORY_LIMIT, Architecture
from tests.kernels.compile_int4 import cases

SCRIPT = Path(__file__).with_name("compile_int4.py")
ROOT = SCRIPT.parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_they_fit_and_do_not_spill(architecture: Architecture) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, str(SCRIPT), str(architecture)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(reports) == len(list(cases(architecture))), (
        f"the compiler crashed: {run.stderr[-2000:]}"
    )
    limit = SHARED_MEMORY_LIMIT[architecture]
    bad = [r for r in reports if "error" in r or r["spills"] or r["shared_bytes"] > limit]
    assert bad == []
    if architecture == 90:
        assert min(report["matrix"] for report in reports) > 0, "it must use the matrix unit"
