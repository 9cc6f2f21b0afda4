"""A linear layer as the sum of its matrix products and its casts, by any model of time.

y[M,N] = x[M,K] @ w[N,K].T has up to three products, every one C[m,n] = A[m,k] @ B[n,k].T:

    output        m=M, n=N, k=K     x @ w.T
    grad_input    m=M, n=K, k=N     grad_out @ w
    grad_weight   m=N, n=K, k=M     grad_out.T @ x

`forward` has the first, `forward_backward` all three. What is cast, and how often, as in torchao's
float8 training (facts of torchao_roofline_utils and torchao pull request 940, seed documents):

                                   forward           forward_backward
    fp8_tensorwise       x         tensorwise        tensorwise
                         w         tensorwise        tensorwise
                         grad_out                    tensorwise
    fp8_axiswise         x         rowwise dim0      rowwise dim0 and dim1 from one read ("both")
                         w         rowwise dim0      dim0 in the forward, dim1 in the backward pass
                         grad_out                    rowwise dim0 and dim1 from one read ("both")
    fp8_axiswise_bf16_grad_weight    grad_weight is a bf16 product
                         x         rowwise dim0      rowwise dim0
                         w         rowwise dim0      dim0, and dim1: torchao's tensorwise cast of w
                                                     for grad_input takes its amax from the scales
                                                     of dim0, reads 2 and writes 1 byte an element
                         grad_out                    rowwise dim0
    fp8_blockwise_128x128
                         x         1x128             1x128 and, transposed along columns, 1x128 dim1
                         w         128x128           128x128 in the forward and the backward pass
                         grad_out                    1x128 and 1x128 dim1

`..._slow_accum` has the casts of its recipe. With cached weights, as in inference, w is not cast.
bf16 has no casts, and nothing is fused: norms and activations beside the linear are not counted.
Left out: a tensorwise tensor is needed in both layouts by the backward pass, and the cast that is
measured writes one (5 of torchao's 6 bytes an element of x and grad_out, 5 of 8 of w). grad_weight
of fp8_blockwise_128x128 has scales per 1 x 128 of both operands, and is timed as the product of
op gemm, which has squares of one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, Protocol, runtime_checkable

import numpy as np

from roofcal.core.records import PlanPoint
from roofcal.core.times import Array, Times
from roofcal.models.registry import Model
from roofcal.models.sources import Sources

Passes = Literal["forward", "forward_backward"]
Casts = Literal["none", "torch_compile", "torch_eager", "triton"]
Weights = Literal["cached", "cast"]
PASSES: Final[tuple[Passes, ...]] = ("forward", "forward_backward")
CASTS: Final[tuple[Casts, ...]] = ("none", "torch_compile", "torch_eager", "triton")
WEIGHTS: Final[tuple[Weights, ...]] = ("cached", "cast")

BF16_GRAD_WEIGHT: Final = "fp8_axiswise_bf16_grad_weight"
_SLOW: Final = "_slow_accum"
_TENSOR: Final = ("fp8_tensorwise",)
_DIM0: Final = ("fp8_rowwise_dim0",)
_BOTH: Final = ("fp8_rowwise_both",)
_DIM0_DIM1: Final = ("fp8_rowwise_dim0", "fp8_rowwise_dim1")
_STRIPS: Final = ("fp8_blockwise_1x128", "fp8_blockwise_1x128_dim1")
_SQUARES: Final = ("fp8_blockwise_128x128",)
# pass -> recipe -> tensor -> recipes of op cast, see the module
_CASTS: Final[Mapping[Passes, Mapping[str, Mapping[str, Sequence[str]]]]] = {
    "forward": {
        "bf16": {},
        "fp8_tensorwise": {"x": _TENSOR, "w": _TENSOR},
        "fp8_axiswise": {"x": _DIM0, "w": _DIM0},
        BF16_GRAD_WEIGHT: {"x": _DIM0, "w": _DIM0},
        "fp8_blockwise_128x128": {"x": _STRIPS[:1], "w": _SQUARES},
    },
    "forward_backward": {
        "bf16": {},
        "fp8_tensorwise": {"x": _TENSOR, "w": _TENSOR, "grad_out": _TENSOR},
        "fp8_axiswise": {"x": _BOTH, "w": _DIM0_DIM1, "grad_out": _BOTH},
        BF16_GRAD_WEIGHT: {"x": _DIM0, "w": _DIM0_DIM1, "grad_out": _DIM0},
        "fp8_blockwise_128x128": {"x": _STRIPS, "w": 2 * _SQUARES, "grad_out": _STRIPS},
    },
}


@runtime_checkable
class TimesCasts(Protocol):
    """A model that times casts by vectors; others are asked through `predict`."""

    def cast_times(
        self, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array, /
    ) -> Times:
        """Seconds of casts of rows x cols; raises KeyError for one that it does not know."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """What of a linear is timed.

    recipe    of op gemm, or BF16_GRAD_WEIGHT
    casts     who casts: a provider of op cast; none: the products alone
    weights   cast: in every pass; cached: beforehand. Nobody's where casts is none
    """

    recipe: str
    passes: Passes = "forward"
    casts: Casts = "torch_compile"
    weights: Weights = "cached"


def usual_weights(passes: Passes) -> Weights:
    """Weights change between the steps of training, and never in inference."""
    return "cast" if passes == "forward_backward" else "cached"


def product_recipes(recipe: str, passes: Passes) -> dict[str, str]:
    """Product of the linear -> its recipe of op gemm, see the module."""
    first = "fp8_axiswise" if recipe == BF16_GRAD_WEIGHT else recipe
    if passes == "forward":
        return {"output": first}
    last = "bf16" if recipe == BF16_GRAD_WEIGHT else recipe
    return {"output": first, "grad_input": first, "grad_weight": last}


def has_casts(recipe: str) -> bool:
    """Whether it is known what a linear of the recipe casts."""
    return recipe.removesuffix(_SLOW) in _CASTS["forward"]


def cast_recipes(linear: Linear) -> list[tuple[str, str]]:
    """(tensor, recipe of op cast) of every cast; raises KeyError unless has_casts(recipe)."""
    if linear.casts == "none":
        return []
    by_tensor = _CASTS[linear.passes][linear.recipe.removesuffix(_SLOW)]
    return [
        (tensor, recipe)
        for tensor, recipes in by_tensor.items()
        if tensor != "w" or linear.weights == "cast"
        for recipe in recipes
    ]


def linear_times(
    model: Model, sources: Sources, linear: Linear, m: Array, n: Array, k: Array
) -> Times:
    """Seconds of y[M,N] = x[M,K] @ w[N,K].T, vectors of M, N and K.

    Lows and highs of the parts are added: a model that is off on one product of a recipe is off the
    same way on the others, so their errors do not cancel. low and high are None where a part has
    none; bound_by is `output`, `grad_input`, `grad_weight` or `casts`. Raises KeyError for a
    product or a cast that the model does not know.
    """
    products = product_recipes(linear.recipe, linear.passes)
    return times_of(model, sources, products, (linear.casts, cast_recipes(linear)), (m, n, k))


def times_of(
    model: Model,
    sources: Sources,
    products: Mapping[str, str],
    casts: tuple[str, Sequence[tuple[str, str]]],
    sizes: tuple[Array, Array, Array],
    multipliers: Mapping[str, str] = MappingProxyType({}),
) -> Times:
    """Seconds of products, name -> recipe of op gemm, and of casts, as linear_times.

    casts: their provider, and (tensor, recipe of op cast) of each. multipliers: recipe of op gemm
    -> provider of its products, where it is not the model's default. Raises KeyError as
    linear_times.
    """
    m, n, k = sizes
    sides = {"output": (m, n, k), "grad_input": (m, k, n), "grad_weight": (n, k, m)}
    parts = {
        name: _product_times(model, sources, (multipliers.get(recipe, ""), recipe), sides[name])
        for name, recipe in products.items()
    }
    shapes = {"x": (m, k), "w": (n, k), "grad_out": (m, n)}
    provider, made = casts
    each = [
        cast_times(model, sources, provider, recipe, *shapes[tensor]) for tensor, recipe in made
    ]
    if each:
        parts["casts"] = _sum({str(i): part for i, part in enumerate(each)})
    return _sum(parts)


def cast_times(
    model: Model, sources: Sources, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds of casts by any model; raises KeyError for one that it does not know."""
    if isinstance(model, TimesCasts):
        return model.cast_times(sources, provider, recipe, rows, cols)
    sides = {"rows": rows, "cols": cols}
    return _predicted(model, sources, _points(sources, "cast", (provider, recipe), sides))


def _product_times(
    model: Model, sources: Sources, pair: tuple[str, str], sizes: tuple[Array, Array, Array]
) -> Times:
    """Of a pair (provider, recipe); "" is the provider that the model means by default."""
    provider, recipe = pair
    if not provider:
        return model.product_times(sources, recipe, *sizes)
    sides = dict(zip("mnk", sizes, strict=True))
    return _predicted(model, sources, _points(sources, "gemm", pair, sides))


def _predicted(model: Model, sources: Sources, points: Sequence[PlanPoint]) -> Times:
    """Seconds of points of one recipe; raises KeyError for one that the model does not know."""
    found = model.predict(points, sources)
    if len(found) != len(points):
        raise KeyError(points[0].recipe)
    return Times(
        total=np.array([one.total_s for one in found], dtype=float),
        low=_ends([one.low_s for one in found]),
        high=_ends([one.high_s for one in found]),
        bound_by=[one.bound_by for one in found],
    )


def cast_providers(model: Model, sources: Sources, linear: Linear) -> list[Casts]:
    """Providers, of CASTS, by which a model knows all that a linear casts."""
    needed = dict.fromkeys(name for _, name in cast_recipes(replace(linear, casts=CASTS[1])))
    one = np.array([1024.0])
    known: list[Casts] = []
    for provider in CASTS[1:]:
        try:
            for recipe in needed:
                cast_times(model, sources, provider, recipe, one, one)
        except KeyError:
            continue
        known.append(provider)
    return known


def _points(
    sources: Sources, op: str, pair: tuple[str, str], sides: Mapping[str, Array]
) -> list[PlanPoint]:
    """Points of a pair (provider, recipe), one per element of the vectors by axis."""
    known = sources.calibration or sources.spec
    device = known.device if known else ""
    provider, recipe = pair
    columns = [side.astype(int).tolist() for side in sides.values()]
    shapes = [dict(zip(sides, sizes, strict=True)) for sizes in zip(*columns, strict=True)]
    return [
        PlanPoint(op=op, provider=provider, recipe=recipe, shape=shape, device=device)
        for shape in shapes
    ]


def _ends(values: Sequence[float | None]) -> Array | None:
    known = [value for value in values if value is not None]
    return np.array(known, dtype=float) if len(known) == len(values) else None


def _sum(parts: Mapping[str, Times]) -> Times:
    """The sum of named parts, bound by the largest."""
    names = list(parts)
    totals = np.stack([part.total for part in parts.values()])
    lows = [part.low for part in parts.values() if part.low is not None]
    highs = [part.high for part in parts.values() if part.high is not None]
    stated = len(lows) == len(highs) == len(names)
    return Times(
        total=totals.sum(axis=0),
        low=np.stack(lows).sum(axis=0) if stated else None,
        high=np.stack(highs).sum(axis=0) if stated else None,
        bound_by=[names[index] for index in totals.argmax(axis=0)],
    )
