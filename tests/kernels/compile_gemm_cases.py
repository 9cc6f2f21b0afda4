"""The fp8 products that are compiled ahead of time: every config, on the GPUs that would use it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from triton.experimental.gluon import language as gl

from kernels.common import architecture as configs
from kernels.common.architecture import ARCHITECTURES
from kernels.gemm import axiswise as fp8_gemm
from kernels.gemm import blockwise as fp8_gemm_blockwise
from kernels.gemm import configs as gemm_configs
from kernels.gemm import few_rows as fp8_gemm_skinny
from kernels.gemm.configs import GemmConfig, SkinnyConfig
from kernels.gemm.hopper import cooperative as fp8_gemm_hopper
from kernels.gemm.hopper import pingpong as fp8_gemm_pingpong
from kernels.gemm.hopper import staged_scales as fp8_gemm_blocks
from tests.kernels.compile_case import Case

LARGE = gemm_configs.WITH_LARGE_TILES
SMALLER = tuple(
    arch for arch in ARCHITECTURES if arch not in LARGE and arch not in configs.WITHOUT_E4M3
)
TYPES = {"e4m3": "fp8e4nv", "e5m2": "fp8e5"}
BOOLEANS = (False, True)
TYPE = {
    **dict.fromkeys(("scale_a", "scale_b", "partial"), "*fp32"),
    **dict.fromkeys(("M", "N", "K", "STRIDE"), "i32"),
    **dict.fromkeys(("STRIDE_A_ROW", "STRIDE_A_STEP", "STRIDE_B_ROW", "STRIDE_B_STEP"), "i32"),
    "counters": "*i32",
    "c": "*bf16",
}


def gemms() -> Iterator[tuple[str, Case]]:
    yield from _products(gemm_configs.FAST, "fast", 0, LARGE)
    yield from _products(gemm_configs.SLOW, "slow", 128, LARGE)
    yield from _products(gemm_configs.SMALL, "fast", 0, SMALLER)
    for kind in ("e4m3", "e5m2"):
        mixed = _product(gemm_configs.FAST[0], 0, True, LARGE, (kind, "e5m2"))
        yield f"gemm_{kind}_e5m2", mixed
    yield from _blockwise(gemm_configs.BLOCKWISE, LARGE)
    yield from _blockwise(gemm_configs.SMALL_BLOCKWISE, SMALLER)
    yield from _hopper()
    yield from _pingpong()
    yield from _large_blocks()
    for rows in (16, 32, 64):
        for split in (1, 4):
            yield f"gemm_skinny_{rows}_split{split}", _skinny(rows, split)
    nvidia = tuple(arch for arch in (*LARGE, *SMALLER) if isinstance(arch, int))
    amd = tuple(arch for arch in (*LARGE, *SMALLER) if isinstance(arch, str))
    blocks, squares = {"BLOCKS": True}, {"BLOCKS": True, "ROWS_B": False}
    for how, gpus in ((gemm_configs.SKINNY_BLOCKS, nvidia), (gemm_configs.SKINNY, amd)):
        name = f"gemm_skinny_blocks_{how.n}"
        yield f"{name}_16_split4", replace(_skinny(16, 4, how, squares), architectures=gpus)
        yield f"{name}_64_split1", replace(_skinny(64, 1, how, blocks), architectures=gpus)


def _products(
    table: Sequence[GemmConfig], accumulation: str, promote: int, architectures: Any
) -> Iterator[tuple[str, Case]]:
    for how in table:
        name = f"gemm_{accumulation}_{how.m}x{how.n}x{how.k}"
        for rows in BOOLEANS:
            case = _product(how, min(promote, how.k), rows, architectures)
            yield f"{name}_{'axiswise' if rows else 'tensorwise'}", case


def _product(
    how: GemmConfig,
    promote: int,
    rows: bool,
    architectures: Any,
    types: tuple[str, str] = ("e4m3", "e4m3"),
) -> Case:
    return Case(
        kernel=fp8_gemm._gemm_kernel,
        signature=_known(fp8_gemm._gemm_kernel) | _descriptors(how, types),
        constants={
            "ROWS_A": rows,
            "ROWS_B": rows,
            "PROMOTE": promote,
            "BLOCK_M": how.m,
            "BLOCK_N": how.n,
            "BLOCK_K": how.k,
            "PARTS": how.parts,
            "GROUP": how.group,
            "FLAT": how.flat,
            "PROGRAMS": 132,
        },
        num_warps=how.num_warps,
        num_stages=how.num_stages,
        architectures=architectures,
        wide=False,
        matrix=True,
    )


def _known(kernel: Any) -> dict[str, str]:
    """Types of the kernel's arguments that have the same type in all kernels."""
    return {name: TYPE[name] for name in kernel.arg_names if name in TYPE}


def _descriptors(how: GemmConfig, types: tuple[str, str] = ("e4m3", "e4m3")) -> dict[str, str]:
    a, b = (TYPES[kind] for kind in types)
    return {
        "a": f"tensordesc<{a}[{how.m},{how.k}]>",
        "b": f"tensordesc<{b}[{how.n},{how.k}]>",
        "c": f"tensordesc<bf16[{how.m},{how.n // how.parts}]>",
    }


def _blockwise(table: Sequence[GemmConfig], architectures: Any) -> Iterator[tuple[str, Case]]:
    for how in table:
        for a in BOOLEANS:
            for b in BOOLEANS:
                name = f"gemm_blocks_{how.m}x{how.n}_{_block(a)}_{_block(b)}_{how.num_stages}"
                yield name, _blocks(how, a, b, architectures)


def _block(square: bool) -> str:
    return "squares" if square else "strips"


def _blocks(how: GemmConfig, a: bool, b: bool, architectures: Any) -> Case:
    return Case(
        kernel=fp8_gemm_blockwise._blockwise_kernel,
        signature=_known(fp8_gemm_blockwise._blockwise_kernel) | _descriptors(how),
        constants={
            "SQUARE_A": a,
            "SQUARE_B": b,
            "BLOCK_M": how.m,
            "BLOCK_N": how.n,
            "GROUP": how.group,
            "FLAT": how.flat,
            "PROGRAMS": 132,
        },
        num_warps=how.num_warps,
        num_stages=how.num_stages,
        architectures=architectures,
        wide=False,
        matrix=True,
    )


def _skinny(
    rows: int,
    split: int,
    how: SkinnyConfig = gemm_configs.SKINNY,
    constants: dict[str, bool] | None = None,
) -> Case:
    kernel = fp8_gemm_skinny._skinny_kernel
    unused = dict.fromkeys(("partial", "counters")) if split == 1 else {}
    signature = {name: kind for name, kind in _known(kernel).items() if name not in unused}
    signature["a"] = f"tensordesc<fp8e4nv[{rows},{how.k}]>"
    signature["b"] = f"tensordesc<fp8e4nv[{how.n},{how.k}]>"
    return Case(
        kernel=kernel,
        signature=signature,
        constants={
            **unused,
            "BLOCKS": False,
            "ROWS_A": True,
            "ROWS_B": True,
            "PROMOTE": 0,
            "SPLIT": split,
            "BLOCK_M": rows,
            "BLOCK_N": how.n,
            "BLOCK_K": how.k,
            **(constants or {}),
        },
        num_warps=how.num_warps,
        num_stages=how.num_stages,
        architectures=(*LARGE, *SMALLER),
        wide=False,
        matrix=True,
    )


def _hopper() -> Iterator[tuple[str, Case]]:
    kernel = fp8_gemm_hopper._hopper_kernel
    for mode, how in gemm_configs.HOPPER.items():
        for rows in BOOLEANS[mode == "blocks" :]:
            case = Case(
                kernel=kernel,
                signature=_known(kernel) | _gluon_descriptors(how),
                constants={
                    "MODE": mode,
                    "ROWS_A": rows,
                    "ROWS_B": rows and mode != "blocks",
                    "STAGES": how.stages,
                    "GROUP": how.group,
                    "REGISTERS": how.registers,
                    "TILE_N": how.n,
                    "WIDTH": how.box,
                },
                architectures=(90,),
                wide=False,
                matrix=True,
                gluon=True,
            )
            yield f"gemm_hopper_{mode}_{'axiswise' if rows else 'tensorwise'}", case


def _pingpong() -> Iterator[tuple[str, Case]]:
    kernel, how = fp8_gemm_pingpong._pingpong_kernel, gemm_configs.PINGPONG
    e4m3, e5m2 = (_gluon_descriptor([128, 128], kind) for kind in (gl.float8e4nv, gl.float8e5))
    c = _gluon_descriptor([128, 64], gl.bfloat16)
    for rows, a, b, of_types in (
        (False, e4m3, e4m3, ""),
        (True, e4m3, e4m3, ""),
        (True, e5m2, e4m3, "_e5m2_e4m3"),
    ):
        constants = {
            "ROWS_A": rows,
            "ROWS_B": rows,
            "STAGES": how.stages,
            "GROUP": how.group,
            "BUFFERS": how.buffers,
            "REGISTERS": how.registers,
        }
        name = f"gemm_pingpong_{'axiswise' if rows else 'tensorwise'}{of_types}"
        yield name, _gluon(kernel, {"a": a, "b": b, "c": c}, constants)


def _large_blocks() -> Iterator[tuple[str, Case]]:
    kernel = fp8_gemm_blocks._blocks_kernel
    made = {
        "a": _gluon_descriptor([64, 128], gl.float8e4nv),
        "b": _gluon_descriptor([128, 128], gl.float8e4nv),
        "c": _gluon_descriptor([64, 64], gl.bfloat16),
        "scale_a": f"tensordesc<fp32[64],{fp8_gemm_blocks.SCALES!r}>",
    }
    of_rows = {"scale_b": f"tensordesc<fp32[128],{fp8_gemm_blocks.SCALES!r}>"}
    squares = [(how, False) for how in gemm_configs.BLOCKS]
    for how, rows in [*squares, *((how, True) for how in gemm_configs.BLOCKS_ROWS)]:
        constants = {
            "ROWS_B": rows,
            "STAGES": how.stages,
            "GROUP": how.group,
            "REGISTERS": how.registers,
            "TILE_M": how.m,
            "TILE_N": how.n,
            "BUFFERS": how.buffers,
        }
        descriptors = made | of_rows if rows else made
        name = f"gemm_large_blocks_{how.m}x{how.n}{'_rows' if rows else ''}"
        yield name, _gluon(kernel, descriptors, constants)
        if rows and how.m == 192:  # gradients may be e5m2
            descriptors = descriptors | {"a": _gluon_descriptor([64, 128], gl.float8e5)}
            yield f"{name}_e5m2_e4m3", _gluon(kernel, descriptors, constants)


def _gluon(kernel: Any, descriptors: dict[str, str], constants: dict[str, Any]) -> Case:
    return Case(
        kernel=kernel,
        signature=_known(kernel) | descriptors,
        constants=constants,
        architectures=(90,),
        wide=False,
        matrix=True,
        gluon=True,
    )


def _gluon_descriptors(how: gemm_configs.HopperGemmConfig) -> dict[str, str]:
    return {
        "a": _gluon_descriptor([64, 128], gl.float8e4nv),
        "b": _gluon_descriptor([how.box, 128], gl.float8e4nv),
        "c": _gluon_descriptor([64, 128], gl.bfloat16),
    }


def _gluon_descriptor(block: list[int], kind: Any) -> str:
    layout = fp8_gemm_hopper.layout_of(block, kind)
    return f"tensordesc<{kind.name}{block},{layout!r}>"
