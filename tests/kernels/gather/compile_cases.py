"""Products that follow arrival, compiled ahead of time: every tile, and the kernel of a turn."""

from collections.abc import Iterator, Sequence

from kernels.common.architecture import (
    ARCHITECTURES,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from kernels.gather import flags, plans, product
from kernels.gemm.rule import GemmConfig
from tests.kernels.compile_case import Case
from tests.kernels.gemm.compile_cases import LARGE, plain_case, tile_descriptors

SMALLER = tuple(arch for arch in ARCHITECTURES if arch not in LARGE)
PORTABLE = tuple(WITHOUT_TENSOR_MEMORY_UNIT)  # they wait by atomics
ASYNC = tuple(arch for arch in SMALLER if arch not in PORTABLE)
SIZES = ("SHARD", "N", "K", "RANK", "WORLD", "CHUNKS", "TILES_EACH")


def gather_cases() -> Iterator[tuple[str, Case]]:
    yield from _products(plans.WIDE, "bf16", LARGE)
    yield from _products(plans.WIDE[:1], "fp16", LARGE)
    yield from _products(plans.NARROW, "fp8e4nv", LARGE)
    for gpus in (PORTABLE, ASYNC):
        with_e4m3 = tuple(arch for arch in gpus if arch not in WITHOUT_E4M3)
        yield from _products(plans.SMALL, "bf16", gpus)
        yield from _products(plans.SMALL, "fp8e4nv", with_e4m3)
    yield "begin_turn", _begin()


def _products(
    table: Sequence[GemmConfig], kind: str, gpus: tuple[Architecture, ...]
) -> Iterator[tuple[str, Case]]:
    kernel, scaled = product._gathered_kernel, kind == "fp8e4nv"
    scales = ("scale_a", "scale_b")
    for config in table:
        descriptors = tile_descriptors(config, (kind, kind), names=("a", "w"))
        descriptors |= dict.fromkeys(("flags", "state"), "*i32") | dict.fromkeys(SIZES, "i32")
        constants = {
            **({} if scaled else dict.fromkeys(scales)),
            "SPACING": flags.FLAG_SPACING,
            "SCALED": scaled,
            "WIDEN": False,
            "PTX": not set(gpus) & set(PORTABLE),
        }
        case = plain_case(kernel, config, descriptors, constants, gpus)
        yield f"gathered_{kind}_{config.m}x{config.n}x{config.k}_{gpus[0]}", case


def _begin() -> Case:
    numbers = ("BUFFER", "RANK", "WORLD", "CHUNKS")
    return Case(
        kernel=flags._begin_kernel,
        signature={
            **dict.fromkeys(("state", "flags", "finished"), "*i32"),
            "finished_of_peers": "*i64",
            **dict.fromkeys(numbers, "i32"),
        },
        constants={"SPACING": flags.FLAG_SPACING},
        num_warps=1,
        wide=False,
    )
