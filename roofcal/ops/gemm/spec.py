"""The matrix product C[M,N] = A[M,K] @ B[N,K].T; M are the tokens of a layer, N x K its weights."""

from dataclasses import replace

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.regimes import gemm_regime
from roofcal.core.work import Work, gemm_work
from roofcal.ops.spec import OpSpec, Shape


def work(recipe: str, shape: Shape) -> Work:
    """Least work of a product; raises KeyError for an unknown recipe or a missing axis."""
    return gemm_work(GEMM_RECIPES[recipe], shape["m"], shape["n"], shape["k"])


def regime(shape: Shape) -> str:
    """Regime of the shape, see roofcal.core.regimes."""
    return gemm_regime(shape["m"], shape["n"], shape["k"])


def layer_shape(tokens: int, n: int, k: int) -> Shape:
    """The product of a layer with n x k weights applied to `tokens` rows."""
    return {"m": tokens, "n": n, "k": k}


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
)
# Random log-uniform products per recipe and provider, disjoint from every shape of the study.
PROBE = replace(
    OP, name="probe_math", role="probe", calibrates=OP.name, layer_shape=None, baseline_recipe=None
)
