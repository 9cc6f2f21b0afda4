"""What an answer says where the question lies outside the probed range of a calibration.

Intervals are wider there already (roofcal.ops.predictions). A linear, or a gather with its product,
lies as far beyond as the part of it that lies farthest; products are those of the library.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.ask.linear_options import Part
from roofcal.core.recipes import BITS, GEMM_RECIPES
from roofcal.core.records import Calibration, PlanPoint
from roofcal.ops import BY_NAME
from roofcal.ops.constants import load_part
from roofcal.ops.gemm.model import LIBRARIES
from roofcal.ops.gemm.tiles import ALIGNED_BYTES
from roofcal.ops.linear.model import PRODUCTS, TENSORS, TRANSPOSED, is_made_of_linears, parts_of
from roofcal.ops.predictions import MOST_DOUBLINGS, doublings_outside, has_probes
from roofcal.ops.spec import Shape

FAR: Final = MOST_DOUBLINGS  # doublings from which on no measurement supports an interval


def beyond_probes(
    calibration: Calibration | None, point: PlanPoint
) -> tuple[float | None, tuple[str, ...]]:
    """(doublings from a point to the nearest probed size, the kinds of its work without probes).

    0.0 within; None where no part of the point has known probes, and without a calibration. Kinds
    are in words, as of `unprobed_kind`.
    """
    if calibration is None:
        return None, ()
    doublings, kinds = list[float](), dict[str, None]()
    for op, provider, recipe, shape in _parts(point):
        own = doublings_outside(calibration, BY_NAME[op], provider, recipe, shape)
        doublings += [] if own is None else [float(own)]
        if kind := unprobed_kind(calibration, op, provider, recipe, shape):
            kinds[kind] = None
    return max(doublings, default=None), tuple(kinds)


def unprobed_kind(
    calibration: Calibration, op: str, provider: str, recipe: str, shape: Shape
) -> str:
    """The kind of work that a product or cast is, in words; "" where a probe is of that kind."""
    name = f"{op}.{provider}.{recipe}"
    if name not in calibration.probe_errors:
        return ""
    model, group = load_part(BY_NAME[op], "model"), "all"
    if groups_of := getattr(model, "groups_of", None):
        sizes = [np.array([float(shape[axis])]) for axis in BY_NAME[op].axes]
        (group,) = groups_of(recipe, sizes)
    if has_probes(calibration, name, group):
        return ""
    nearest = []  # N and K whose rows start on 16 bytes
    is_product = BY_NAME[op].computes == "product"  # casts have recipes of the same names
    if group == "unaligned" and is_product and (spec := GEMM_RECIPES.get(recipe)):
        for axis, dtype in (("n", spec.out), ("k", spec.a.dtype)):
            multiple = 8 * ALIGNED_BYTES // BITS[dtype]
            below = shape[axis] - shape[axis] % multiple
            if shape[axis] != below:
                both = f"{below} or {below + multiple}" if below else f"{multiple}"
                nearest.append(f"{axis}={both}")
    words = getattr(model, "GROUPS", {}).get(group, group)
    way_out = f" (the nearest aligned: {', '.join(nearest)})" if nearest else ""
    return f"{op} {recipe} by {provider} with {words}{way_out}"


def _parts(point: PlanPoint) -> list[tuple[str, str, str, Shape]]:
    """Op, provider, recipe and shape of what a point is made of; [] for what no model answers."""
    op, shape, provider, recipe = BY_NAME[point.op], point.shape, point.provider, point.recipe
    if point.op == "all_gather_matmul":
        return [("gemm", library, recipe, shape) for library in LIBRARIES]
    if not is_made_of_linears(op) or op.axes != BY_NAME["linear"].axes:
        names = dict.fromkeys((op.name, *(("gemm",) if op.computes == "product" else ())))
        known = (name for name in names if BY_NAME[name].has_recipe(recipe))
        return [(name, provider, recipe, shape) for name in known]
    try:
        linear = parts_of(provider, recipe)
    except KeyError:  # no model has an answer for it either
        return []
    products = [
        Part("gemm", library, product, name, PRODUCTS[name])
        for name, product in linear.products.items()
        for library in LIBRARIES
    ]
    casts = [
        Part("cast", linear.casts_by, cast, name, TENSORS[name])
        for name, cast in (*linear.casts, *((name, TRANSPOSED) for name in linear.transposed))
    ]
    parts = (*products, *casts)
    return [(part.op, part.provider, part.recipe, part.shape(shape)) for part in parts]


def unprobed_words(unprobed: Sequence[str]) -> str:
    """Which kinds of work no probe has, and whose interval stands for their own."""
    return (
        f"no probe is of this kind: {'; '.join(unprobed)}; the interval shown is the widest that "
        "any provider has for such shapes"
    )
