"""What an answer says where the question lies outside the probed range of a calibration.

Intervals are wider there already (roofcal.ops.predictions). A linear, or a gather with its product,
lies as far beyond as the part of it that lies farthest; products are those of the library.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from roofcal.core.recipes import BITS, GEMM_RECIPES
from roofcal.core.records import Calibration, PlanPoint
from roofcal.ops import BY_NAME
from roofcal.ops.constants import load_part
from roofcal.ops.gemm.model import LIBRARIES
from roofcal.ops.gemm.tiles import ALIGNED_BYTES
from roofcal.ops.linear.model import TRANSPOSED, is_made_of_linears, parts_of
from roofcal.ops.predictions import MOST_DOUBLINGS, doublings_outside, has_probes
from roofcal.ops.spec import Shape

Part = tuple[str, str, str, Shape]  # op, provider, recipe, shape
FAR: Final = MOST_DOUBLINGS  # doublings from which on no measurement supports an interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """How far a point lies beyond the probes.

    doublings  to the nearest probed size, 0 within; None where no part has known probes
    unprobed   the kinds of work that no probe has, in words
    """

    doublings: float | None = None
    unprobed: tuple[str, ...] = ()

    def farther(self, other: "Beyond") -> "Beyond":
        """Of a sum of two parts: the part that is farther outside."""
        known = [own for own in (self.doublings, other.doublings) if own is not None]
        unprobed = tuple(dict.fromkeys(self.unprobed + other.unprobed))
        return Beyond(doublings=max(known, default=None), unprobed=unprobed)


def beyond_probes(calibration: Calibration | None, point: PlanPoint) -> Beyond:
    """How far a point lies outside the probed range; unknown without a calibration."""
    return Beyond() if calibration is None else beyond_parts(calibration, _parts(point))


def beyond_parts(calibration: Calibration, parts: Iterable[Part]) -> Beyond:
    """The distance of the part farthest outside, and all parts that are unlike any probe."""
    farthest = Beyond()
    for op_name, provider, recipe, shape in parts:
        op = BY_NAME[op_name]
        sizes = {axis: np.array([float(shape[axis])]) for axis in op.axes}
        doublings = doublings_outside(calibration, op, provider, recipe, sizes)
        unprobed: tuple[str, ...] = ()
        name = f"{op_name}.{provider}.{recipe}"
        if name in calibration.probe_errors:
            model = load_part(op, "model")
            (group,) = getattr(model, "groups_of", _one_group)(recipe, list(sizes.values()))
            if not has_probes(calibration, name, group):
                words = getattr(model, "GROUPS", {}).get(group, group)
                is_product = recipe in GEMM_RECIPES and group == "unaligned"
                nearest = _nearest_aligned(recipe, shape) if is_product else ""
                unprobed = (f"{op_name} {recipe} by {provider} with {words}{nearest}",)
        own = Beyond(doublings=None if doublings is None else float(doublings[0]))
        farthest = farthest.farther(replace(own, unprobed=unprobed))
    return farthest


def _one_group(_recipe: str, sizes: Sequence[Any]) -> list[str]:
    return ["all"] * len(sizes[0])


def _nearest_aligned(recipe: str, shape: Shape) -> str:
    """The nearest N and K whose rows start on 16 bytes."""
    spec, nearest = GEMM_RECIPES[recipe], []
    for axis, dtype in (("n", spec.out), ("k", spec.a.dtype)):
        multiple = 8 * ALIGNED_BYTES // BITS[dtype]
        below = shape[axis] - shape[axis] % multiple
        if shape[axis] != below:
            sizes = f"{below} or {below + multiple}" if below else f"{multiple}"
            nearest.append(f"{axis}={sizes}")
    return f" (the nearest aligned: {', '.join(nearest)})"


def _parts(point: PlanPoint) -> list[Part]:
    """The products and casts that a point is made of; [] for what no model can answer."""
    op, shape = BY_NAME[point.op], point.shape
    if point.op == "all_gather_matmul":
        return [("gemm", library, point.recipe, shape) for library in LIBRARIES]
    if not is_made_of_linears(op) or op.axes != BY_NAME["linear"].axes:
        names = dict.fromkeys((op.name, *(("gemm",) if op.computes == "product" else ())))
        return [
            (name, point.provider, point.recipe, shape)
            for name in names
            if BY_NAME[name].has_recipe(point.recipe)
        ]
    try:
        linear = parts_of(point.provider, point.recipe)
    except KeyError:  # no model has an answer for it either
        return []
    m, n, k = (shape[axis] for axis in "mnk")
    sides = {"output": (m, n, k), "grad_input": (m, k, n), "grad_weight": (n, k, m)}
    tensors = {"x": (m, k), "w": (n, k), "grad_out": (m, n)}
    products: list[Part] = [
        ("gemm", library, recipe, dict(zip("mnk", sides[name], strict=True)))
        for name, recipe in linear.products.items()
        for library in LIBRARIES
    ]
    casts: list[Part] = [
        ("cast", linear.casts_by, cast, dict(zip(("rows", "cols"), tensors[name], strict=True)))
        for name, cast in (*linear.casts, *((name, TRANSPOSED) for name in linear.transposed))
    ]
    return products + casts


def extrapolation_words(doublings: float) -> str:
    """How far an answer lies outside the probed range, and what that does to its interval."""
    if doublings > FAR:
        return (
            f"extrapolated: {doublings:.1f} doublings outside the probed range; no measurement "
            "says how wide the interval should be so far out: treat it as a guess"
        )
    return f"extrapolated: {doublings:.1f} doublings outside the probed range, so less certain"


def unprobed_words(unprobed: Sequence[str]) -> str:
    """Which kinds of work no probe has, and whose interval stands for their own."""
    return (
        f"no probe is of this kind: {'; '.join(unprobed)}; the interval shown is the widest that "
        "any provider has for such shapes"
    )
