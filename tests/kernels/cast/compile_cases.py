"""The casts, compiled ahead of time: all that calls launch on the GPUs of every architecture."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kernels.cast import blocks, both_ways, columns, fused, rows, tensorwise
from kernels.cast.hopper import columns as hopper_columns
from kernels.cast.rule import FEW_ROWS
from kernels.common.architecture import ARCHITECTURES, WITHOUT_E4M3, Architecture
from tests.kernels.compile_case import Case, launches, on_gpu

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
BF16, FP32 = torch.bfloat16, torch.float32
# (type of x, of q); what holds for bf16 holds for fp16, which is as wide
PAIRS = ((BF16, E4M3), (FP32, E4M3), (BF16, E5M2))
Sizes = tuple[tuple[int, int], ...]
Cast = tuple[Callable[..., Any], dict[str, Any], Sizes]
Calls = Iterator[tuple[str, tuple[int, int], Callable[[], object]]]

ONE = on_gpu(FP32, 1)
EVEN_OR_ODD: Sizes = ((8192, 8192), (8191, 8191))
TILES: Sizes = ((8192, 8192), (8192, 8208), (8190, 8192))  # the second ragged on Hopper alone
BOTH: Sizes = (*TILES, (8191, 8191))
# maxima of 4, 8 and 16 parts of a column; of one where they are found beside rows
COLUMNS: Sizes = (
    *TILES,
    *((8192, 4096), (8192, 4112), (8190, 4096)),
    *((13568, 1024), (13568, 1040), (13566, 1024)),
    *((8191, 8191), (8192, 8191), (8191, 4095), (13565, 1023)),
)
SHORT_COLUMNS: Sizes = (
    *((height, cols) for height in (1, 16, FEW_ROWS, 512) for cols in (8192, 8191)),
    *((2048, 2048), (2048, 2047), (4095, 4096), (4095, 4095)),
)
WITH_ROWS: Sizes = ((1, 8192), (16, 8192), (FEW_ROWS, 8192), (512, 4096), (2048, 1024), (4095, 512))
# rows in registers, those held in two parts or read twice, of few rows and of many
ROWS: Sizes = (
    *((4096, 256), (4096, 4096), (4096, 16384)),
    *((128, 24576), (128, 32768), (128, 49152), (128, 65536), (144, 65536)),
)
STRIPS: Sizes = (*EVEN_OR_ODD, (64, 4096), (64, 4095), (1 << 24, 1 << 14))
MX_ROWS: Sizes = (*STRIPS[:-1], (1 << 22, 1 << 14))
MX_COLUMNS: Sizes = (*TILES, (128, 512), (127, 512))
CASTS: tuple[Cast, ...] = (
    (tensorwise.tensorwise, {}, EVEN_OR_ODD),
    (tensorwise.tensorwise, {"amax": ONE}, EVEN_OR_ODD),
    (tensorwise.tensorwise, {"scale": ONE}, EVEN_OR_ODD),
    (rows.rowwise_dim0, {}, ROWS),
    (columns.rowwise_dim1, {}, (*COLUMNS, *SHORT_COLUMNS)),
    (columns.rowwise_both, {}, (*TILES, *WITH_ROWS)),
    (columns.rowwise_dim0_and_maxima, {}, ROWS[:3]),
    *((blocks.mxfp8_dim0, {"rounding": rounding}, MX_ROWS) for rounding in ("floor", "ceil")),
    *((blocks.mxfp8_dim1, {"rounding": rounding}, MX_COLUMNS) for rounding in ("floor", "ceil")),
    *(
        (blocks.mxfp8_both, {"rounding": rounding}, (*MX_COLUMNS, (FEW_ROWS, 512), (1, 512)))
        for rounding in ("floor", "ceil")
    ),
    (blocks.blockwise_1x128, {}, STRIPS),
    (blocks.blockwise_1x128_dim1, {}, EVEN_OR_ODD[:1]),
    (blocks.blockwise_128x128, {}, EVEN_OR_ODD[:1]),
    (both_ways.tensorwise_both, {}, BOTH),
    (both_ways.tensorwise_both, {"amax": ONE}, TILES[:1]),
    (both_ways.blockwise_1x128_both, {}, BOTH),
    (both_ways.blockwise_128x128_both, {}, BOTH),
)


def cast_cases() -> Iterator[tuple[str, Case]]:
    """Each launch once, for the architectures on which a call makes it."""
    named_cases: dict[str, tuple[str, Case]] = {}
    for architecture in ARCHITECTURES:
        for name, size, call in _calls(architecture):
            for case in launches(call, architecture):
                key = repr(replace(case, architectures=()))
                if key not in named_cases:
                    whole_name = f"{name} {case.kernel.__name__} {architecture}"
                    named_cases[key] = whole_name, _checked(case, size, architecture)
                    continue
                first_name, first_case = named_cases[key]
                if architecture not in first_case.architectures:
                    on = (*first_case.architectures, architecture)
                    named_cases[key] = first_name, replace(first_case, architectures=on)
    yield from named_cases.values()


def _checked(case: Case, size: tuple[int, int], architecture: Architecture) -> Case:
    """The case, with what its code must have and must not have.

    Accesses of 16 bytes where whole units lie in a row; those of Gluon are left to its layouts, but
    where a thread stores runs along the rows.
    """
    is_flat = case.kernel is tensorwise._cast_kernel or case.kernel is tensorwise._amax_kernel
    is_even = size[0] > FEW_ROWS and all(length % 16 == 0 for length in size)
    wide = case.constants.get("BOTH", False) if case.gluon else is_even or is_flat
    is_transpose = case.kernel is hopper_columns._transpose_kernel
    without = ("shared.b8", "shfl.sync.bfly") if is_transpose else ()
    return replace(case, architectures=(architecture,), wide=wide, without=without)


def _calls(architecture: Architecture) -> Calls:
    for source, target in PAIRS:
        if target == E4M3 and architecture in WITHOUT_E4M3:
            continue
        types = f"{_name(source)}-{_name(target)}"
        for cast, how, sizes in CASTS:
            # Blocks are cast to e5m2 only where there is no e4m3, and from fp32 with one rounding:
            # they compile for minutes.
            in_blocks = cast.__module__ == blocks.__name__
            if in_blocks and target == E5M2 and architecture not in WITHOUT_E4M3:
                continue
            if in_blocks and source == FP32 and how.get("rounding") == "ceil":
                continue
            more = "".join(f" {name}{'' if value is ONE else value}" for name, value in how.items())
            for size in sizes:
                call = partial(cast, on_gpu(source, *size), target, **how)
                yield f"{cast.__name__}{more} {size[0]}x{size[1]} {types}", size, call
    if architecture not in WITHOUT_E4M3:
        yield from _fused()
        for largest in (448.0, 1.0):
            spread = partial(columns.spread_largest, on_gpu(FP32, 4096, 1), largest, 4096)
            yield f"spread_{largest}", (4096, 4096), spread


def _fused() -> Calls:
    """Alone at 4096 columns and the most; both ways so large that maxima are taken beside rows."""
    for op, most in fused.MOST_COLUMNS.items():
        kinds = [("rowwise", 4096), ("rowwise", most), ("mxfp8_floor", most)]
        kinds += [("blockwise_1x128", most)] if op == "rms_norm" else []
        ways = [(kind, cols, False) for kind, cols in kinds]
        for kind, cols, both in (*ways, ("rowwise", fused.BOTH_MOST_COLUMNS, True)):
            x, vector = on_gpu(BF16, 4096, cols), on_gpu(BF16, cols)
            others = {"rms_norm": (vector,), "layer_norm": (vector, vector)}.get(op, (x,))
            call = partial(getattr(fused, op), x, *others, kind=kind, both=both)
            yield f"{op} {kind}{' both' if both else ''} {cols}", (4096, cols), call


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.").removeprefix("float8_")
