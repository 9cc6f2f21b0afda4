"""C[M,N] = gathered A[M,K] @ B[N,K].T on several devices: tensor parallelism with split sequences.

Each of `world_size` devices holds M / world_size rows of A and its own B; N are the columns of one
device, M the rows of all. Work is that of one device. Bounds, which no overlap can beat together:

gemm_only         the product alone, A gathered before
all_gather_only   the all-gather alone

Rows of fp8_axiswise have scales, which travel with them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from roofcal.core.recipes import RECIPES, Work, nbytes
from roofcal.ops.gemm import spec as gemm
from roofcal.ops.spec import OpSpec, Shape

GEMM_ONLY: Final = "gemm_only"
ALL_GATHER_ONLY: Final = "all_gather_only"
BOUNDS: Final = (GEMM_ONLY, ALL_GATHER_ONLY)
IN_SEQUENCE: Final = ("nccl_then_gemm", "gloo_then_gemm")
OURS: Final = "symm_mem_fused"
TORCH: Final = "torch_fused"


def work(recipe: str, shape: Shape) -> Work:
    """Least work of one device; raises KeyError for an unknown recipe or a missing axis.

    link_bytes is the whole gathered A: a device receives (world_size - 1) / world_size of it.
    """
    gathered = RECIPES[recipe].a.nbytes(shape["m"], shape["k"])
    return replace(gemm.work(recipe, shape), link_bytes=gathered)


def received_bytes(provider: str, recipe: str, shape: Shape, world_size: int) -> float:
    """Bytes of A, with its scales, that a device gets from the others; of gemm_only none."""
    if provider == GEMM_ONLY:
        return 0.0
    return (world_size - 1) / world_size * work(recipe, shape).link_bytes


def size_multiples(provider: str, recipe: str) -> Mapping[str, int]:
    """What the library refuses, which all but our kernel use, or our kernel: rows off 16 bytes."""
    if provider == OURS:
        return {"k": 16 // nbytes(RECIPES[recipe].a.dtype, 1)}
    library = {ALL_GATHER_ONLY: "", IN_SEQUENCE[1]: "torch_cpu"}.get(provider, "cublaslt")
    return gemm.size_multiples(library, recipe)


OP = OpSpec(
    name="all_gather_matmul",
    role="study",
    axes=("m", "n", "k"),
    recipes=("bf16", "fp8_axiswise"),
    providers={
        "cuda": (IN_SEQUENCE[0], TORCH, OURS, *BOUNDS),
        "cpu": (IN_SEQUENCE[1], *BOUNDS),
    },
    work=work,
    regime=gemm.regime,
    baseline_recipe="bf16",
    shared_axis="m",
    received_bytes=received_bytes,
    partial=(ALL_GATHER_ONLY,),
    size_multiples=size_multiples,
    calibrated_on=("probe_math", "probe_link"),
)
