"""Which kernels are compiled ahead of time, with which configuration, and for which GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from kernels import cast_fp8, cast_fp8_columns, cast_fp8_hopper, configs, empty, memory_stream
from kernels.configs import ARCHITECTURES, Architecture
from kernels.fp8_scales import LARGEST

WITH_E4M3 = tuple(arch for arch in ARCHITECTURES if arch not in configs.WITHOUT_E4M3)
FROM_HOPPER_ON = tuple(
    arch for arch in ARCHITECTURES if arch not in configs.WITHOUT_TENSOR_MEMORY_UNIT
)
TYPES = {"e4m3": ("fp8e4nv", torch.float8_e4m3fn), "e5m2": ("fp8e5", torch.float8_e5m2)}
# (type of x, type of q); what holds for bf16 holds for fp16, which is as wide
PAIRS = (("bf16", "e4m3"), ("fp32", "e4m3"), ("bf16", "e5m2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel with the types of its arguments, its constants and its warps.

    wide           whether some accesses must be of 16 bytes per thread
    without        what must not be in the PTX of an NVIDIA GPU
    gluon          written in Gluon: layouts are its own
    """

    kernel: Any
    signature: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    architectures: tuple[Architecture, ...] = ARCHITECTURES
    wide: bool = True
    without: tuple[str, ...] = ()
    gluon: bool = False


def _streams() -> Iterator[tuple[str, Case]]:
    fp32 = {"src": "*fp32", "dst": "*fp32", "partial": "*fp32", "value": "fp32", "COUNT": "i32"}
    for name, how in {"read_sum": configs.READ, "fill": configs.FILL, "copy": configs.COPY}.items():
        kernel = getattr(memory_stream, f"_{name}_kernel")
        yield (
            name,
            Case(
                kernel=kernel,
                signature={k: v for k, v in fp32.items() if k in kernel.arg_names},
                constants={"BLOCK": how.block},
                num_warps=how.num_warps,
            ),
        )
    yield "empty", Case(kernel=empty._empty_kernel, wide=False)


def _casts() -> Iterator[tuple[str, Case]]:
    for source, kind in PAIRS:
        for name, case in _casts_of(source, kind):
            yield f"{name}-{source}-{kind}", case


def _casts_of(source: str, kind: str) -> Iterator[tuple[str, Case]]:
    arguments = {
        **dict.fromkeys(("COUNT", "PARTIALS", "ROWS", "COLS", "STRIDE"), "i32"),
        **dict.fromkeys(("partial", "largest"), "*i32"),
        "x": f"*{source}",
        "q": f"*{TYPES[kind][0]}",
        "scale": "*fp32",
    }
    how = {"LARGEST": LARGEST[TYPES[kind][1]], "POWER_OF_TWO": False}
    usable = WITH_E4M3 if kind == "e4m3" else ARCHITECTURES

    def case(kernel: Any, warps: int, constants: dict[str, Any], **more: Any) -> Case:
        signature = {k: v for k, v in arguments.items() if k in kernel.arg_names}
        constants = {k: v for k, v in (how | constants).items() if k in kernel.arg_names}
        return Case(
            kernel=kernel,
            signature=signature,
            constants=constants,
            num_warps=warps,
            **{"architectures": usable, **more},
        )

    amax, cast, rows = configs.AMAX, configs.CAST, configs.ROWS
    flat = {"STRIDED": False, "BLOCK": amax.block}
    if kind == "e5m2":  # reads only: the same for both types
        yield "amax", case(cast_fp8._amax_kernel, amax.num_warps, flat)
    flat = {"STRIDED": False, "BLOCK": cast.block, "STEPS": cast.steps, "MOST_PARTIALS": 1024}
    yield "cast", case(cast_fp8._cast_kernel, cast.num_warps, flat | {"GIVEN": False})
    yield "cast_given", case(cast_fp8._cast_kernel, cast.num_warps, flat | {"GIVEN": True})
    for cols in (256, 4096, rows.largest_block):
        block, at_once, warps = cast_fp8.rows_tile(cols, rows)
        tile = {"BLOCK": block, "R": at_once}
        yield f"rows_{cols}", case(cast_fp8._rows_kernel, warps, tile)
        both = cast_fp8_columns._rows_and_columns_kernel
        yield f"both_{cols}", case(both, warps, tile | {"STAGES": configs.BOTH.stages})
    long = {"BLOCK": rows.long_block}
    yield "long_rows", case(cast_fp8._long_rows_kernel, rows.long_warps, long)
    yield from _columns_of(kind, case)


def _columns_of(kind: str, case: Any) -> Iterator[tuple[str, Case]]:
    amax, plain, hopper = configs.COLUMNS_AMAX, configs.TRANSPOSE, configs.HOPPER_TRANSPOSE
    if kind == "e5m2":
        tile = {"BLOCK_M": amax.rows, "BLOCK_N": amax.cols, "STEPS": amax.steps}
        yield "columns_amax", case(cast_fp8_columns._columns_amax_kernel, amax.num_warps, tile)
    tile = {"BLOCK_M": plain.rows, "BLOCK_N": plain.cols}
    yield "transpose", case(cast_fp8_columns._transpose_kernel, plain.num_warps, tile)
    for even in (True, False):
        built = case(
            cast_fp8_hopper._transpose_kernel,
            hopper.num_warps,
            {
                "EVEN": even,
                "C": hopper.columns_per_thread,
                "GROUP": hopper.group,
                "num_warps": hopper.num_warps,
            },
            architectures=FROM_HOPPER_ON,
            without=("shared.b8", "shfl.sync.bfly"),
            gluon=True,
            wide=False,
        )
        block = [32 * hopper.columns_per_thread, 32 * hopper.num_warps]
        layout = cast_fp8_hopper.tile_layout(hopper.num_warps)
        built.signature["target"] = f"tensordesc<{TYPES[kind][0]}{block},{layout!r}>"
        yield f"hopper_transpose{'' if even else '_ragged'}", built


CASES: dict[str, Case] = dict((*_streams(), *_casts()))
