"""Points of op linear by any model of time: the sum of its products and casts.

What is cast depends on who casts. torchao: the table of roofcal.models.linear, casts compiled.
Our kernels (kernels.linear.layer), by what the recipe asks of each of x, w and grad_out:

    axiswise along rows and columns   rowwise_both
    along the rows, along the columns rowwise_dim0, rowwise_dim1
    tensorwise                        tensorwise; a transposed copy reads and writes as rowwise_dim0
    blockwise, of x and grad_out      blockwise_1x128, blockwise_1x128_dim1
    blockwise, of w                   blockwise_128x128; its transposed copy counts as another
                                      transposing cast, blockwise_1x128_dim1, which reads bf16

A product whose operands are scaled differently is timed as axiswise; products are those of the
library, also beside `triton_products`, but in blocks ours, as these linears multiply. A product of
two operands scaled per 1 x 128 is timed as one with squares of w. Nothing is fused. There is no
product in mxfp8: its recipes have no answer, nor has a norm beside the linear, nor blockwise by
torchao, whose casts there are kernels of its own.
The datasheet's model answers by the least work of the whole op. A point without a provider is that
of our kernels, or of torchao where the casts of ours are not known.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Times
from roofcal.models.linear import Linear, cast_recipes, has_casts, product_recipes, times_of
from roofcal.models.registry import Model
from roofcal.models.sources import Sources
from roofcal.ops.linear import spec

OP: Final = spec.OP.name
_OURS: Final = ("triton", "triton_products")
_ANYONE: Final = ("triton", "torchao")  # asked in turn for a point without a provider
_FP8: Final = {"fast": "", "two_level": "_slow_accum"}
_BLOCKS: Final = "fp8_blockwise_128x128"
_MULTIPLIERS: Final = {_BLOCKS: "triton"}
# how a tensor is scaled along its rows -> recipe of op cast; squares: w in blocks
_BY_ROWS: Final = {
    "axiswise": "fp8_rowwise_dim0",
    "tensorwise": "fp8_tensorwise",
    "blockwise": "fp8_blockwise_1x128",
    "squares": "fp8_blockwise_128x128",
}
_BY_COLUMNS: Final = {"axiswise": "fp8_rowwise_dim1", "blockwise": "fp8_blockwise_1x128_dim1"}
Parts = tuple[dict[str, str], tuple[str, list[tuple[str, str]]]]


def predict(model: Model, points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the model can answer, of any op, in the order of the points."""
    found = {made.point_id: made for made in model.predict(points, sources)}
    groups: dict[tuple[str, str], list[PlanPoint]] = {}
    for point in points:
        if point.op == OP and point.point_id not in found:
            groups.setdefault((point.provider, point.recipe), []).append(point)
    for (provider, recipe), some in groups.items():
        for who in (provider,) if provider else _ANYONE:
            made = _group(model, who, recipe, some, sources)
            found |= {one.point_id: one for one in made if one.point_id not in found}
    return [found[point.point_id] for point in points if point.point_id in found]


def _group(
    model: Model, provider: str, recipe: str, points: Sequence[PlanPoint], sources: Sources
) -> list[Prediction]:
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    try:
        parts = parts_of(provider, recipe)
        times = times_of(model, sources, *parts, (m, n, k), _MULTIPLIERS)
    except KeyError:  # a product or cast that the model does not know
        return []
    return [_prediction(model.MODEL, point, times, i) for i, point in enumerate(points)]


def _prediction(model: str, point: PlanPoint, times: Times, i: int) -> Prediction:
    return Prediction(
        point_id=point.point_id,
        model=model,
        math_s=None,
        dram_s=None,
        link_s=None,
        launch_s=None,
        total_s=float(times.total[i]),
        low_s=None if times.low is None else float(times.low[i]),
        high_s=None if times.high is None else float(times.high[i]),
        bound_by=times.bound_by[i],
    )


def parts_of(provider: str, recipe: str) -> Parts:
    """(product -> recipe of op gemm, (who casts, (tensor, recipe of op cast) of every cast)).

    Raises KeyError for what has no such parts.
    """
    if recipe == "bf16":
        return product_recipes(recipe, "forward_backward"), ("none", [])
    if provider in _OURS:
        return _products(recipe), ("triton", _our_casts(recipe))
    if provider != "torchao" or not has_casts(recipe) or recipe == _BLOCKS:
        raise KeyError(f"{provider} {recipe}")
    linear = Linear(recipe=recipe, passes="forward_backward", casts="torch_compile", weights="cast")
    return product_recipes(recipe, linear.passes), (linear.casts, cast_recipes(linear))


def _products(recipe: str) -> dict[str, str]:
    made = {}
    for name, product in spec.recipe(recipe).products.items():
        kinds = {product.a, product.b}
        if not product.is_fp8:
            made[name] = "bf16"
        elif kinds == {"blockwise"}:
            made[name] = _BLOCKS
        elif kinds <= {"tensorwise", "axiswise"}:
            kind = "tensorwise" if kinds == {"tensorwise"} else "axiswise"
            made[name] = f"fp8_{kind}{_FP8[product.summed]}"
        else:
            raise KeyError(recipe)
    return made


def _our_casts(recipe: str) -> list[tuple[str, str]]:
    found = spec.recipe(recipe)
    ends = {
        "x": (found.output.a, found.grad_weight.b),
        "w": (_of_weight(found.output.b), _of_weight(found.grad_input.b)),
        "grad_out": (found.grad_input.a, found.grad_weight.a),
    }
    return [(tensor, cast) for tensor, pair in ends.items() for cast in _casts(*pair)]


def _of_weight(granularity: str) -> str:
    return "squares" if granularity == "blockwise" else granularity


def _casts(rows: str, columns: str) -> list[str]:
    """Recipes of op cast for one tensor that is read along its rows and along its columns."""
    if rows == columns == "axiswise":
        return ["fp8_rowwise_both"]
    made = [_BY_ROWS[rows]] if rows in _BY_ROWS else []
    return [*made, *_column_casts(rows, columns)]


def _column_casts(rows: str, columns: str) -> list[str]:
    """What is cast along the columns beside the cast along the rows."""
    if columns == "tensorwise":  # its amax is that of the rows' cast, where that finds it
        return ["fp8_rowwise_dim0" if rows in ("axiswise", "tensorwise") else "fp8_tensorwise"]
    if columns == "squares":  # they are turned around
        first = [] if rows == "squares" else [_BY_ROWS["squares"]]
        return [*first, _BY_COLUMNS["blockwise"]]
    return [_BY_COLUMNS[columns]] if columns in _BY_COLUMNS else []
