"""Products that follow arrival, compiled ahead of time: every tile, and the kernel of a turn."""

from collections.abc import Iterator, Sequence
from typing import Any

from kernels.common import architecture as configs
from kernels.common.architecture import ARCHITECTURES
from kernels.gather import configs as all_gather_configs
from kernels.gather import flags as arrival_flags
from kernels.gather import product as gathered_matmul
from kernels.gather.configs import FLAG_SPACING
from kernels.gemm import configs as gemm_configs
from kernels.gemm.configs import GemmConfig
from tests.kernels.compile_case import Case

LARGE = gemm_configs.WITH_LARGE_TILES
SMALLER = tuple(arch for arch in ARCHITECTURES if arch not in LARGE)
PORTABLE = tuple(configs.WITHOUT_TENSOR_MEMORY_UNIT)  # they wait by atomics
ASYNC = tuple(arch for arch in SMALLER if arch not in PORTABLE)
SIZES = ("SHARD", "N", "K", "RANK", "WORLD", "CHUNKS", "TILES_EACH")


def gathered() -> Iterator[tuple[str, Case]]:
    yield from _products(all_gather_configs.WIDE, "bf16", LARGE)
    yield from _products(all_gather_configs.WIDE[:1], "fp16", LARGE)
    yield from _products(all_gather_configs.NARROW, "fp8e4nv", LARGE)
    for architectures in (PORTABLE, ASYNC):
        with_e4m3 = [arch for arch in architectures if arch not in configs.WITHOUT_E4M3]
        yield from _products(all_gather_configs.SMALL, "bf16", architectures)
        yield from _products(all_gather_configs.SMALL, "fp8e4nv", with_e4m3)
    yield "begin_turn", _begin()


def _products(
    table: Sequence[GemmConfig], kind: str, architectures: Sequence[Any]
) -> Iterator[tuple[str, Case]]:
    for how in table:
        name = f"gathered_{kind}_{how.m}x{how.n}x{how.k}_{architectures[0]}"
        yield name, _product(how, kind, tuple(architectures))


def _product(how: GemmConfig, kind: str, architectures: tuple[Any, ...]) -> Case:
    scaled = kind == "fp8e4nv"
    scales = ("scale_a", "scale_b")
    return Case(
        kernel=gathered_matmul._gathered_kernel,
        signature={
            "a": f"tensordesc<{kind}[{how.m},{how.k}]>",
            "w": f"tensordesc<{kind}[{how.n},{how.k}]>",
            "c": f"tensordesc<bf16[{how.m},{how.n // how.parts}]>",
            **dict.fromkeys(("flags", "state"), "*i32"),
            **dict.fromkeys(SIZES, "i32"),
            **(dict.fromkeys(scales, "*fp32") if scaled else {}),
        },
        constants={
            **({} if scaled else dict.fromkeys(scales)),
            "SPACING": FLAG_SPACING,
            "SCALED": scaled,
            "WIDEN": False,
            "PTX": not set(architectures) & set(PORTABLE),
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


def _begin() -> Case:
    numbers = ("BUFFER", "RANK", "WORLD", "CHUNKS")
    return Case(
        kernel=arrival_flags._begin_kernel,
        signature={
            **dict.fromkeys(("state", "flags", "finished"), "*i32"),
            "finished_of_peers": "*i64",
            **dict.fromkeys(numbers, "i32"),
        },
        constants={"SPACING": FLAG_SPACING},
        num_warps=1,
        wide=False,
    )
