"""Every kernel compiles for every architecture: no spills, shared memory within the limit."""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from kernels.common.architecture import (
    ARCHITECTURES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from tests.kernels.compile_cases import CASES
from tests.paths import ROOT

# Of Hopper and Blackwell the ones for whole warpgroups: mma.sync would run at half their rate.
FASTEST_INSTRUCTION: dict[Architecture, str] = {
    **dict.fromkeys((80, 89, 120), "mma.sync"),
    90: "wgmma.mma_async",
    100: "tcgen05.mma",
    **dict.fromkeys(("gfx942", "gfx950"), "v_mfma"),
}
POINTS = [
    pytest.param(architecture, name, marks=pytest.mark.slow if case.slow else ())
    for architecture in ARCHITECTURES
    for name, case in CASES.items()
    if architecture in case.architectures
]


@cache
def compiled(architecture: Architecture, *which: str) -> tuple[dict[str, dict[str, Any]], str]:
    """(report of each case, what the compiler said); cases after a crash are missing."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.kernels.compile_ahead", str(architecture), *which]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    reports = [json.loads(line) for line in run.stdout.splitlines()]
    return {report["case"]: report for report in reports}, run.stderr[-2000:]


@pytest.mark.parametrize(("architecture", "case"), POINTS)
def test_it_fits_and_does_not_spill(architecture: Architecture, case: str) -> None:
    reports, errors = compiled(architecture, "slow" if CASES[case].slow else "fast")
    assert case in reports, (
        f"{case} on {architecture} crashed the compiler, or one before it: {errors}"
    )
    report = reports[case]
    assert "error" not in report, report
    assert report["spills"] == 0
    assert report["shared_bytes"] <= SHARED_MEMORY_LIMIT[architecture]
    assert report["unwanted"] == []
    if CASES[case].matrix == "fastest":
        assert report["matrix"] == [FASTEST_INSTRUCTION[architecture]]
    elif CASES[case].matrix:
        assert report["matrix"] != []
    if CASES[case].wide:
        assert report["wide_accesses"] > 0, "it must move 16 bytes per thread and access"


@pytest.mark.parametrize(
    ("architecture", "case"),
    [
        *((arch, "cast-bf16-e4m3") for arch in WITHOUT_E4M3),
        *((arch, "gemm_fast_128x128x64_axiswise") for arch in WITHOUT_E4M3),
        *((arch, "gemm_hopper_slow_axiswise") for arch in (89, 100, 120)),
        *((arch, "hopper_transpose_4-bf16-e5m2") for arch in WITHOUT_TENSOR_MEMORY_UNIT),
    ],
)
def test_what_an_architecture_is_said_to_lack_does_not_compile(
    architecture: Architecture, case: str
) -> None:
    reports, errors = compiled(architecture, case)
    assert "error" in reports.get(case, {"error": errors})
