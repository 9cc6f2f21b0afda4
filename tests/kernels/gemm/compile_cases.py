"""The fp8 products, compiled ahead of time: every config, on the GPUs that would use it."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from triton.experimental.gluon import language as gl

from kernels.common.architecture import (
    LARGE_TILES_BYTES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from kernels.gemm import axiswise, blockwise, rule, skinny
from kernels.gemm.hopper import pingpong, pipeline, staged_scales
from kernels.gemm.rule import GemmConfig, SkinnyConfig
from tests.kernels.compile_case import (
    AMD_WITH_E4M3,
    FP8,
    NVIDIA_WITH_E4M3,
    WITH_E4M3,
    Case,
)

LARGE = tuple(
    arch
    for arch in WITH_E4M3
    if arch not in WITHOUT_TENSOR_MEMORY_UNIT and SHARED_MEMORY_LIMIT[arch] >= LARGE_TILES_BYTES
)
SMALLER = tuple(arch for arch in WITH_E4M3 if arch not in LARGE)
BOOLEANS = (False, True)
TYPES = {
    **dict.fromkeys(("scale_a", "scale_b", "partial"), "*fp32"),
    **dict.fromkeys(("M", "N", "K", "STRIDE"), "i32"),
    **dict.fromkeys(("STRIDE_A_ROW", "STRIDE_A_STEP", "STRIDE_B_ROW", "STRIDE_B_STEP"), "i32"),
    "counters": "*i32",
    "c": "*bf16",
}
Cases = Iterator[tuple[str, Case]]


def gemm_cases() -> Cases:
    yield from _axiswise(rule.FAST, "fast", 0, LARGE)
    yield from _axiswise(rule.SLOW, "slow", 128, LARGE)
    yield from _axiswise(rule.SMALL, "fast", 0, SMALLER)
    for kind in FP8:
        yield f"gemm_{kind}_e5m2", _axiswise_case(rule.FAST[0], 0, True, LARGE, (kind, "e5m2"))
    yield from _blockwise(rule.BLOCKS, LARGE)
    yield from _blockwise(rule.SMALL_BLOCKS, SMALLER)
    yield from _pingpong()
    yield from _staged_scales()
    yield from _skinny()


def product_case(kernel: Any, signature: dict[str, str], constants: Any, **more: Any) -> Case:
    """A case that has to use the matrix unit; arguments of the same type in all kernels known."""
    types = {name: TYPES[name] for name in kernel.arg_names if name in TYPES} | signature
    types = {name: kind for name, kind in types.items() if name not in constants}
    return Case(
        kernel=kernel, signature=types, constants=constants, wide=False, matrix="fastest", **more
    )


def tile_descriptors(
    config: GemmConfig, types: tuple[str, str], names: tuple[str, str] = ("a", "b")
) -> dict[str, str]:
    """Types of the descriptors of a persistent product in plain Triton."""
    left, right = names
    return {
        left: f"tensordesc<{types[0]}[{config.m},{config.k}]>",
        right: f"tensordesc<{types[1]}[{config.n},{config.k}]>",
        "c": f"tensordesc<bf16[{config.m},{config.n // config.parts}]>",
    }


def plain_case(
    kernel: Any, config: GemmConfig, descriptors: dict[str, str], constants: Any, gpus: Any
) -> Case:
    """A persistent product in plain Triton."""
    return product_case(
        kernel,
        descriptors,
        constants | {"CONFIG": config, "PROGRAMS": 132},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        architectures=gpus,
    )


def _axiswise(
    table: Sequence[GemmConfig], accumulation: str, promote: int, gpus: tuple[Architecture, ...]
) -> Cases:
    for config in table:
        name = f"gemm_{accumulation}_{config.m}x{config.n}x{config.k}"
        for rows in BOOLEANS:
            case = _axiswise_case(config, min(promote, config.k), rows, gpus)
            yield f"{name}_{'axiswise' if rows else 'tensorwise'}", case


def _axiswise_case(
    config: GemmConfig,
    promote: int,
    rows: bool,
    gpus: tuple[Architecture, ...],
    types: tuple[str, str] = ("e4m3", "e4m3"),
) -> Case:
    descriptors = tile_descriptors(config, (FP8[types[0]][0], FP8[types[1]][0]))
    constants = {"ROWS_A": rows, "ROWS_B": rows, "PROMOTE": promote}
    return plain_case(axiswise._gemm_kernel, config, descriptors, constants, gpus)


def _blockwise(table: Sequence[GemmConfig], gpus: tuple[Architecture, ...]) -> Cases:
    kernel, names = blockwise._blockwise_kernel, {False: "strips", True: "squares"}
    for config, a, b in itertools.product(table, BOOLEANS, BOOLEANS):
        descriptors = tile_descriptors(config, ("fp8e4nv", "fp8e4nv"))
        case = plain_case(kernel, config, descriptors, {"SQUARE_A": a, "SQUARE_B": b}, gpus)
        yield f"gemm_blocks_{config.m}x{config.n}_{names[a]}_{names[b]}_{config.num_stages}", case


def _skinny() -> Cases:
    for rows in (16, 32, 64):
        for split in (1, 4):
            yield f"gemm_skinny_{rows}_split{split}", _skinny_case(rows, split)
    blocks, squares = {"BLOCKS": True}, {"BLOCKS": True, "ROWS_B": False}
    for config, gpus in (
        (rule.FEW_ROWS_BLOCKS, NVIDIA_WITH_E4M3),
        (rule.FEW_ROWS, AMD_WITH_E4M3),
    ):
        name = f"gemm_skinny_blocks_{config.n}"
        yield f"{name}_16_split4", _skinny_case(16, 4, config, squares, gpus)
        yield f"{name}_64_split1", _skinny_case(64, 1, config, blocks, gpus)


def _skinny_case(
    rows: int,
    split: int,
    config: SkinnyConfig = rule.FEW_ROWS,
    changed: dict[str, bool] | None = None,
    gpus: tuple[Architecture, ...] = (*LARGE, *SMALLER),
) -> Case:
    descriptors = {
        "a": f"tensordesc<fp8e4nv[{rows},{config.k}]>",
        "b": f"tensordesc<fp8e4nv[{config.n},{config.k}]>",
    }
    constants = {
        **(dict.fromkeys(("partial", "counters")) if split == 1 else {}),
        "BLOCKS": False,
        "ROWS_A": True,
        "ROWS_B": True,
        "PROMOTE": 0,
        "SPLIT": split,
        "BLOCK_M": rows,
        "BLOCK_N": config.n,
        "BLOCK_K": config.k,
        **(changed or {}),
    }
    return product_case(
        skinny._skinny_kernel,
        descriptors,
        constants,
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        architectures=gpus,
    )


def _pingpong() -> Cases:
    config = pingpong.PINGPONG
    e4m3, e5m2, c = _box(128, 128), _box(128, 128, gl.float8e5), _box(128, 64, gl.bfloat16)
    for rows, a, types in ((False, e4m3, ""), (True, e4m3, ""), (True, e5m2, "_e5m2_e4m3")):
        constants = {
            "ROWS_A": rows,
            "ROWS_B": rows,
            "CONFIG": config,
        }
        name = f"gemm_pingpong_{'axiswise' if rows else 'tensorwise'}{types}"
        boxes = {"a": a, "b": e4m3, "c": c}
        yield name, _hopper_case(pingpong._pingpong_kernel, boxes, constants)


def _staged_scales() -> Cases:
    boxes = {
        "a": _box(64, 128),
        "b": _box(128, 128),
        "c": _box(64, 64, gl.bfloat16),
        "scale_a": f"tensordesc<fp32[64],{staged_scales.SCALES_LAYOUT!r}>",
    }
    of_rows = {"scale_b": f"tensordesc<fp32[128],{staged_scales.SCALES_LAYOUT!r}>"}
    squares = [(config, False) for config in staged_scales.SQUARES]
    for config, rows in [*squares, *((config, True) for config in staged_scales.STRIPS)]:
        constants = {"ROWS_B": rows, "CONFIG": config}
        kernel = staged_scales._staged_scales_kernel
        descriptors = boxes | of_rows if rows else boxes
        name = f"gemm_large_blocks_{config.m}x{config.n}{'_rows' if rows else ''}"
        yield name, _hopper_case(kernel, descriptors, constants)
        if rows and config.m == 192:  # gradients may be e5m2
            descriptors = descriptors | {"a": _box(64, 128, gl.float8e5)}
            yield f"{name}_e5m2_e4m3", _hopper_case(kernel, descriptors, constants)


def _hopper_case(kernel: Any, boxes: dict[str, str], constants: dict[str, Any]) -> Case:
    return product_case(kernel, boxes, constants, architectures=(90,), gluon=True)


def _box(rows: int, cols: int, kind: Any = gl.float8e4nv) -> str:
    block = [rows, cols]
    return f"tensordesc<{kind.name}{block},{pipeline.box_layout(block, kind)!r}>"
