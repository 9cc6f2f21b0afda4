"""Time casts of long rows, from which kernels.cast.rule.long_row_tile is made.

`python -m tools.time_long_rows OUT.csv` on a GPU, in 20 s: rows that are held in two parts beside
rows that are read twice, by the kernels of kernels.cast.rows. Inputs rotate through 160 MB, or 64
copies of small ones, which stay in the L2 cache; a time is the median of five turns of a CUDA
graph, in microseconds.
"""

import csv
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import torch

from kernels.cast import rows as kernels
from kernels.cast import rule
from kernels.common.checks import largest_fp8_value

COLUMNS: Final = ("cols", "rows", "kernel", "block", "tail", "warps", "us")
_COLS: Final = (17920, 20480, 24576, 28672, 29568, 32768, 36864, 49152, 53248)
_ROWS: Final = (1, 8, 34, 64, 128, 264, 512, 1024, 2048, 4096)
_BLOCKS: Final = ((8192, 8), (8192, 16), (16384, 16), (16384, 32))  # (block, warps) of two reads
_MOST_ELEMENTS_OF_THREAD: Final = 64
_INPUT_BYTES: Final = 160e6
_TURNS: Final = 5
_CALLS: Final = 20  # of a graph, at least


def variants(cols: int) -> Iterator[tuple[str, int, int, int]]:
    """(kernel, block or first part, second part or 0, warps) of the ways to cast such rows."""
    for block, warps in _BLOCKS:
        yield "twice", block, 0, warps
    for head in (rule.MOST_COLUMNS_OF_ROW, 2 * rule.MOST_COLUMNS_OF_ROW):
        tail = 1 << max(0, cols - head - 1).bit_length()
        for warps in (16, 32):
            if head < cols <= 2 * head and head + tail <= 32 * warps * _MOST_ELEMENTS_OF_THREAD:
                yield "held", head, tail, warps


def microseconds(calls: Sequence[Callable[[], object]]) -> float:
    """Of one of the calls, made one after the other."""
    for call in calls:
        call()
    graph, rounds = torch.cuda.CUDAGraph(), -(-_CALLS // len(calls))
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for call in calls:
                call()
    turns: list[float] = []
    for _ in range(_TURNS + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        turns.append(start.elapsed_time(end) * 1e3 / (rounds * len(calls)))
    return statistics.median(turns[1:])


def times(rows: int, cols: int) -> Iterator[tuple[str, int, int, int, float]]:
    """Each way to cast and its time; raises ValueError where two ways store different bytes."""
    copies = max(1, min(64, round(_INPUT_BYTES / (3 * rows * cols))))
    inputs = [torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    outputs = [torch.empty_like(x, dtype=torch.float8_e4m3fn) for x in inputs]
    scale, first = torch.empty(rows, 1, device="cuda"), None
    options = {"LARGEST": largest_fp8_value(outputs[0].dtype, inputs[0]), "POWER_OF_TWO": False}
    for kernel, block, tail, warps in variants(cols):
        cut = {"HEAD": block, "TAIL": tail} if tail else {"BLOCK": block}
        launch = (kernels._two_part_rows_kernel if tail else kernels._long_rows_kernel)[(rows,)]

        launch = partial(launch, **options, **cut, num_warps=warps)
        calls = [
            partial(launch, source, target, scale, cols, cols)
            for source, target in zip(inputs, outputs, strict=True)
        ]
        yield kernel, block, tail, warps, microseconds(calls)
        stored = outputs[0].view(torch.uint8).clone()
        if first is not None and not torch.equal(stored, first):
            raise ValueError(f"{rows} x {cols}: {kernel} {block} {tail} {warps} stores other bytes")
        first = stored


def main() -> None:
    """Write the table to the file that is named."""
    (out,) = sys.argv[1:]
    lines = [
        (cols, rows, *way, f"{us:.3f}")
        for cols in _COLS
        for rows in _ROWS
        for *way, us in times(rows, cols)
    ]
    with Path(out).open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])


if __name__ == "__main__":
    main()
