"""No integer of a kernel passes 2^31 in 32 bits, at sizes that no test machine holds."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from kernels.cast import blocks, rows
from kernels.cast.tensorwise import tensorwise
from kernels.common.checks import MOST_ROWS_OR_COLUMNS
from kernels.gemm import axiswise
from tests.kernels import integers
from tests.kernels.compile_cases import CASES
from tests.made_once import make_once
from tests.paths import ROOT

# The GPU, and one in how many calls of each function. `make test` makes a sixth of them for Hopper,
# and for other GPUs the first of each function.
GPUS = ("hopper 6", "other 99")
ALL = [pytest.param(gpu, marks=pytest.mark.exhaustive) for gpu in ("hopper 1", "other 1")]
EVERY = pytest.mark.parametrize("gpu", [*GPUS, *ALL])
# What is refused, of the calls of tests.kernels.huge_calls, and why.
REFUSED = {
    "scales_apart": "wanted scales that lie within 2**31 elements, got strides (33554432, ",
    "every_int4_kernel other": "wanted an Int4PlainConfig",
}


@pytest.fixture(scope="session")
def called(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], list[dict[str, Any]]]:
    """Of a GPU, what became of each call."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    items = [item for item in request.session.items if item.path == Path(__file__)]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]

    def call_all(folder: Path) -> None:
        command = [sys.executable, "-m", "tests.kernels.huge_calls"]
        running = []
        for gpu in {*GPUS} | {params["gpu"] for params in parameters if "gpu" in params}:
            with (folder / gpu).open("w") as file:
                line = [*command, *gpu.split()]
                running.append(subprocess.Popen(line, stdout=file, cwd=ROOT, env=environment))
        assert {call.wait() for call in running} == {0}

    @cache
    def of(gpu: str) -> list[dict[str, Any]]:
        folder = make_once(tmp_path_factory, "huge-calls", call_all)
        return [json.loads(line) for line in (folder / gpu).read_text().splitlines()]

    return of


READ_BLOCKS = """module {
  tt.func public @read(%x: !tt.ptr<f32>, %COUNT: i32) {
    %more = arith.constant 4095 : i32
    %block = arith.constant 4096 : i32
    %lanes = tt.make_range {end = 4096 : i32, start = 0 : i32} : tensor<4096xi32>
    %first = tt.get_program_id x : i32
    %each = tt.get_num_programs x : i32
    %up = arith.addi %COUNT, %more : i32
    %blocks = arith.divsi %up, %block : i32
    %end = scf.for %i = %first to %blocks step %each iter_args(%at = %first) -> (i32)  : i32 {
      %start = arith.muli %i, %block : i32
      %starts = tt.splat %start : i32 -> tensor<4096xi32>
      %index = arith.addi %starts, %lanes : tensor<4096xi32>
      %next = arith.addi %at, %block : i32
      scf.yield %next : i32
    }
    %last = arith.muli %end, %block : i32
    tt.return
  }
}"""


@pytest.mark.parametrize(
    ("count", "programs", "fault"),
    [
        ((1 << 19) - 4096, 16, ""),
        ((1 << 31) - 4096, 1 << 12, "(2147483648, 2147483648) in %end, %block : i32"),
        ((1 << 31) - 4095, 1, "(2147483648, 2147483648) in %COUNT, %more : i32"),
        (4096, 1 << 31, "grid: wanted at most (2147483647, 65535, 65535), got (2147483648, 1, 1)"),
    ],
)
def test_an_integer_that_does_not_fit_is_a_fault(count: int, programs: int, fault: str) -> None:
    faults = integers.faults_in(integers.Text(READ_BLOCKS), {"%COUNT": count}, (programs,))
    assert bool(faults) == bool(fault)
    assert not fault or any(fault in each for each in faults), faults


@EVERY
def test_every_integer_fits_into_its_type_and_nothing_else_is_refused(
    called: Callable[[str], list[dict[str, Any]]], gpu: str
) -> None:
    faults = {line["call"]: line["faults"] for line in called(gpu) if line["faults"]}
    assert not faults, json.dumps(faults, indent=2)
    for line in called(gpu):
        name = line["call"].split()[0]
        reason = REFUSED.get(name) or REFUSED.get(f"{name} {gpu.partition(' ')[0]}")
        assert reason in line["refused"] if reason else line["refused"] is None, line


def test_every_kernel_is_launched(called: Callable[[str], list[dict[str, Any]]]) -> None:
    launched = {tuple(kernel) for gpu in GPUS for line in called(gpu) for kernel in line["kernels"]}
    assert launched == {(case.kernel.__name__, case.gluon) for case in CASES.values()}


def test_more_rows_or_columns_than_kernels_count_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    many, few = MOST_ROWS_OR_COLUMNS + 1, torch.zeros(16, 16, dtype=torch.float8_e4m3fn)
    wanted = f"wanted at most {MOST_ROWS_OR_COLUMNS} rows and columns .*; split it"
    one = torch.ones(())
    for cast in (rows.rowwise_dim0, blocks.mxfp8_both):
        with pytest.raises(ValueError, match=f"^x: {wanted}"):
            cast(torch.zeros(1, 1).expand(many, 1))
    with pytest.raises(ValueError, match=f"^b: {wanted}"):
        axiswise.gemm(few, few[:1].expand(many, 16), one, one)


def test_one_scale_has_no_limit_of_rows(device: torch.device) -> None:
    x = torch.zeros(0, MOST_ROWS_OR_COLUMNS + 1, device=device)
    assert tensorwise(x)[0].shape == x.shape
