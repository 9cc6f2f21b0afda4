"""The matrix product C[M,N] = A[M,K] @ B[N,K].T; M are the tokens of a layer, N x K its weights."""

from collections.abc import Mapping
from dataclasses import replace

from roofcal.core.recipes import GEMM_RECIPES, RECIPES, Work, gemm_work
from roofcal.ops.regimes import gemm_regime
from roofcal.ops.spec import OpSpec, Shape


def work(recipe: str, shape: Shape) -> Work:
    """Least work of a product, with narrow weights too; KeyError for a recipe or an axis."""
    return gemm_work(RECIPES[recipe], shape["m"], shape["n"], shape["k"])


def regime(shape: Shape) -> str:
    """Regime of the shape, see roofcal.ops.regimes."""
    return gemm_regime(shape["m"], shape["n"], shape["k"])


def layer_shape(tokens: int, n: int, k: int) -> Shape:
    """The product of a layer with n x k weights applied to `tokens` rows."""
    return {"m": tokens, "n": n, "k": k}


def has_pair(provider: str, recipe: str) -> bool:
    """Whether the bench has products of a recipe by a provider: our kernel multiplies fp8 alone."""
    return provider != "triton" or GEMM_RECIPES[recipe].math_dtype == "fp8"


def size_multiples(provider: str, recipe: str) -> Mapping[str, int]:
    """What the bench refuses, or the library: blocks of cuBLASLt 13.0 take M in fours alone."""
    if GEMM_RECIPES[recipe].math_dtype != "fp8" or provider not in ("cublaslt", "triton"):
        return {}
    k = 128 if "blockwise" in recipe else 16
    if provider == "triton":
        return {"k": k}
    return {"n": 16, "k": k} | ({"m": 4} if k == 128 else {})


OP = OpSpec(
    name="gemm",
    role="study",
    axes=("m", "n", "k"),
    recipes=tuple(GEMM_RECIPES),
    providers={"cuda": ("cublaslt", "triton"), "cpu": ("torch_cpu",)},
    work=work,
    regime=regime,
    layer_shape=layer_shape,
    baseline_recipe="bf16",
    computes="product",
    has_pair=has_pair,
    size_multiples=size_multiples,
    calibrated_on=("probe_math",),
)
# Random log-uniform products per recipe and provider, disjoint from every shape of the study.
PROBE = replace(
    OP, name="probe_math", role="probe", calibrates=OP.name, layer_shape=None, baseline_recipe=None
)
