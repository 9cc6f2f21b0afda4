"""The fp8 products that are compiled ahead of time: every config, on the GPUs that would use it."""

from collections.abc import Iterator, Sequence
from typing import Any

from kernels import configs, fp8_gemm, fp8_gemm_blockwise, fp8_gemm_skinny, gemm_configs
from kernels.configs import ARCHITECTURES
from kernels.gemm_configs import GemmConfig
from tests.kernels.compile_case import Case

LARGE = gemm_configs.WITH_LARGE_TILES
SMALLER = tuple(
    arch for arch in ARCHITECTURES if arch not in LARGE and arch not in configs.WITHOUT_E4M3
)
TYPES = {"e4m3": "fp8e4nv", "e5m2": "fp8e5"}
BOOLEANS = (False, True)
POINTERS = {
    **dict.fromkeys(("scale_a", "scale_b", "partial"), "*fp32"),
    "counters": "*i32",
    "c": "*bf16",
}
SIZES = dict.fromkeys(("M", "N", "K", "STRIDE"), "i32")
STRIDES = dict.fromkeys(("STRIDE_A_ROW", "STRIDE_A_STEP", "STRIDE_B_ROW", "STRIDE_B_STEP"), "i32")


def gemms() -> Iterator[tuple[str, Case]]:
    yield from _products(gemm_configs.FAST, "fast", 0, LARGE)
    yield from _products(gemm_configs.SLOW, "slow", 128, LARGE)
    yield from _products(gemm_configs.SMALL, "fast", 0, SMALLER)
    for kind in ("e4m3", "e5m2"):
        mixed = _product(gemm_configs.FAST[0], 0, True, True, LARGE, (kind, "e5m2"))
        yield f"gemm_{kind}_e5m2", mixed
    yield from _blockwise(gemm_configs.BLOCKWISE, LARGE)
    yield from _blockwise(gemm_configs.SMALL_BLOCKWISE, SMALLER)
    for rows in (16, 32, 64):
        for split in (1, 4):
            yield f"gemm_skinny_{rows}_split{split}", _skinny(rows, split)


def _products(
    table: Sequence[GemmConfig], accumulation: str, promote: int, architectures: Any
) -> Iterator[tuple[str, Case]]:
    for how in table:
        name = f"gemm_{accumulation}_{how.m}x{how.n}x{how.k}"
        for rows in BOOLEANS:
            case = _product(how, min(promote, how.k), rows, True, architectures)
            yield f"{name}_{'axiswise' if rows else 'tensorwise'}", case
        yield f"{name}_ragged", _product(how, min(promote, how.k), True, False, architectures)


def _product(
    how: GemmConfig,
    promote: int,
    rows: bool,
    described: bool,
    architectures: Any,
    types: tuple[str, str] = ("e4m3", "e4m3"),
) -> Case:
    return Case(
        kernel=fp8_gemm._gemm_kernel,
        signature=POINTERS | SIZES | _descriptors(how, described, types),
        constants={
            "ROWS_A": rows,
            "ROWS_B": rows,
            "PROMOTE": promote,
            "DESCRIBED": described,
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
        odd=() if described else ("M", "N", "STRIDE"),
    )


def _descriptors(how: GemmConfig, c: bool, types: tuple[str, str]) -> dict[str, str]:
    a, b = (TYPES[kind] for kind in types)
    made = {
        "a": f"tensordesc<{a}[{how.m},{how.k}]>",
        "b": f"tensordesc<{b}[{how.n},{how.k}]>",
    }
    return made | ({"c": f"tensordesc<bf16[{how.m},{how.n // how.parts}]>"} if c else {})


def _blockwise(table: Sequence[GemmConfig], architectures: Any) -> Iterator[tuple[str, Case]]:
    for how in table:
        for a in BOOLEANS:
            for b in BOOLEANS:
                name = f"gemm_blocks_{how.m}x{how.n}_{_block(a)}_{_block(b)}_{how.num_stages}"
                yield name, _blocks(how, a, b, True, architectures)
        name = f"gemm_blocks_{how.m}x{how.n}_ragged_{how.num_stages}"
        yield name, _blocks(how, False, True, False, architectures)


def _block(square: bool) -> str:
    return "squares" if square else "strips"


def _blocks(how: GemmConfig, a: bool, b: bool, described: bool, architectures: Any) -> Case:
    return Case(
        kernel=fp8_gemm_blockwise._blockwise_kernel,
        signature=POINTERS | SIZES | STRIDES | _descriptors(how, described, ("e4m3", "e4m3")),
        constants={
            "SQUARE_A": a,
            "SQUARE_B": b,
            "DESCRIBED": described,
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
        odd=() if described else ("M", "N", "STRIDE", *STRIDES),
    )


def _skinny(rows: int, split: int) -> Case:
    how = gemm_configs.SKINNY
    unused = dict.fromkeys(("partial", "counters")) if split == 1 else {}
    tiles = {
        "a": f"tensordesc<fp8e4nv[{rows},{how.k}]>",
        "b": f"tensordesc<fp8e4nv[{how.n},{how.k}]>",
    }
    signature = {k: v for k, v in (POINTERS | SIZES | tiles).items() if k not in unused}
    return Case(
        kernel=fp8_gemm_skinny._skinny_kernel,
        signature=signature,
        constants={
            **unused,
            "ROWS_A": True,
            "ROWS_B": True,
            "PROMOTE": 0,
            "SPLIT": split,
            "BLOCK_M": rows,
            "BLOCK_N": how.n,
            "BLOCK_K": how.k,
        },
        num_warps=how.num_warps,
        num_stages=how.num_stages,
        architectures=(*LARGE, *SMALLER),
        wide=False,
        matrix=True,
    )
