"""Shapes that a provider refuses, with the nearest sizes that work, and shapes beyond the probes.

A linear, or a gather with its product, lies as far beyond as the part of it that lies farthest.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import BITS, GEMM_RECIPES, nbytes
from roofcal.core.records import Calibration, PlanPoint
from roofcal.core.units import GB
from roofcal.models import calibrated
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers, load_part
from roofcal.ops.gemm.model import LIBRARIES
from roofcal.ops.gemm.tiles import ALIGNED_BYTES
from roofcal.ops.linear.model import PRODUCTS, TENSORS, TRANSPOSED, is_made_of_linears, parts_of
from roofcal.ops.predictions import MOST_DOUBLINGS, doublings_outside, has_probes
from roofcal.ops.spec import OpSpec, Shape
from roofcal.ops.time_models import Sources

FAR: Final = MOST_DOUBLINGS  # doublings from which on no measurement supports an interval


def refusal(op: OpSpec, provider: str, recipe: str, shape: Shape) -> str | None:
    """Why a provider does not run a shape, and the nearest sizes that it runs; None if it does."""
    is_refused = op.refused_axes(provider, recipe, shape)
    multiples = op.size_multiples(provider, recipe)
    refused = {axis: size for axis, size in multiples.items() if is_refused[axis, "multiple"]}
    if not refused:
        return too_small(op, provider, recipe, shape)
    required, got, nearest = list[str](), list[str](), list[str]()
    for axis, multiple in refused.items():
        size, below = shape[axis], shape[axis] - shape[axis] % multiple
        required.append(f"{axis} in multiples of {multiple}")
        got.append(f"{axis}={size}")
        either = f"{below} or {below + multiple}" if below else f"{multiple}"
        nearest.append(f"{axis}={either}")
    return (
        f"{provider} takes {recipe} with {', '.join(required)}, got {', '.join(got)}; "
        f"the nearest that works: {', '.join(nearest)}"
    )


def too_small(op: OpSpec, provider: str, recipe: str, shape: Shape) -> str | None:
    """Why a provider for large shapes does not run this one; None if that is no reason."""
    is_refused = op.refused_axes(provider, recipe, shape)
    for axis, least in op.least_sizes(provider, recipe).items():
        if is_refused[axis, "least"]:
            return f"{provider} takes {recipe} with {axis} of {least} and more, got {shape[axis]}"
    return None


def whole_providers(op: OpSpec, recipe: str, device: str) -> list[str]:
    """Providers on a kind of device that have a recipe and do all of an op.

    One of them runs what a model of time predicts that knows no providers.
    """
    providers = op.providers_on("cpu" if device.startswith("cpu-") else "cuda")
    whole = [one for one in providers if one not in op.partial and op.has_pair(one, recipe)]
    if not is_made_of_linears(op):
        return whole
    known = []  # providers whose linears are made of known parts
    for provider in whole:
        with suppress(KeyError):  # as of fp8 by bf16_compile
            parts_of(provider, recipe)
            known.append(provider)
    return known or whole


def providers_that_run(
    op: OpSpec, recipe: str, sources: Sources, by: str, device: str
) -> tuple[list[str], bool]:
    """(whose times a model of time by its name may state, whether these were calibrated).

    The kernels of a product may be those of op gemm too. Where none was calibrated, they are
    those of whole_providers.
    """
    calibrated_names = dict[str, None]()
    if by == calibrated.MODEL and sources.calibration is not None:
        for name in (op.name, *(("gemm",) if op.computes == "product" else ())):
            names = calibrated_providers(sources.calibration.constants, name, recipe)
            calibrated_names |= dict.fromkeys(names)
    names = list(calibrated_names) or whole_providers(op, recipe, device)
    return names, bool(calibrated_names)


def refusals(op: OpSpec, providers: Iterable[str], recipe: str, shape: Shape) -> Mapping[str, str]:
    """Provider -> why it refuses the shape, of those that do."""
    reasons = {provider: refusal(op, provider, recipe, shape) for provider in providers}
    return {provider: reason for provider, reason in reasons.items() if reason is not None}


def why_all_refuse(op: OpSpec, providers: Sequence[str], recipe: str, shape: Shape) -> str | None:
    """Why none of the providers runs a shape; None where one does, or where there are none."""
    refused = refusals(op, providers, recipe, shape)
    if not refused or len(refused) < len(providers):
        return None
    return "; ".join(joined_refusals(refused))


def joined_refusals(refused: Mapping[str, str]) -> list[str]:
    """The reasons of `refusals`, an equal one once for all its providers: a, b and c take ..."""
    providers_of_limit: dict[str, list[str]] = {}
    for provider, reason in refused.items():
        limit = reason.removeprefix(f"{provider} takes ")
        providers_of_limit.setdefault(limit, []).append(provider)
    return [
        f"{', '.join(others)} and {last} take {limit}" if others else f"{last} takes {limit}"
        for limit, (*others, last) in providers_of_limit.items()
    ]


def memory_refusal(point: PlanPoint, spec: DeviceSpec | None) -> str | None:
    """Why a point cannot run on a device: its tensors are larger than the memory.

    None for a point that fits, and without a datasheet.
    """
    if spec is None:
        return None
    needed = tensor_bytes(BY_NAME[point.op], point.recipe, point.shape) / point.world_size
    if needed <= spec.dram_bytes:
        return None
    sizes = ", ".join(f"{axis}={size}" for axis, size in point.shape.items())
    return (
        f"{point.op} {point.recipe} of {sizes} does not fit {spec.device}: its tensors take "
        f"{needed / GB:,.0f} GB, and the memory has {spec.dram_bytes / GB:.0f}"
    )


def tensor_bytes(op: OpSpec, recipe: str, shape: Mapping[str, Any]) -> Any:
    """Bytes of all tensors of a point; shape: sizes by axis, or vectors of them."""
    work = op.work(recipe, shape)
    if op.computes == "cast":
        return nbytes("bf16", shape["rows"] * shape["cols"]) + work.dram_write_bytes
    if op.computes is None and {"m", "n", "k"} <= shape.keys():
        m, n, k = (shape[axis] for axis in "mnk")  # of products: a byte per element of x and w
        return m * k + n * k + nbytes("bf16", m * n)
    return work.dram_bytes


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
    model: Any = load_part(BY_NAME[op], "model")
    sizes = [np.array([float(shape[axis])]) for axis in BY_NAME[op].axes]
    (group,) = model.groups_of(recipe, sizes)
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
    words = model.GROUPS.get(group, group)
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
    sides = [
        *(("gemm", library, product, PRODUCTS[name])
          for name, product in linear.products.items() for library in LIBRARIES),
        *(("cast", linear.casts_by, cast, TENSORS[name]) for name, cast in linear.casts),
        *(("cast", linear.casts_by, TRANSPOSED, TENSORS[name]) for name in linear.transposed),
    ]  # fmt: skip
    parts = list[tuple[str, str, str, Shape]]()
    for name, whose, how, own in sides:
        of_part = dict(zip(BY_NAME[name].axes, (shape[side] for side in own), strict=True))
        parts.append((name, whose, how, of_part))
    return parts


def unprobed_words(unprobed: Sequence[str]) -> str:
    """Which kinds of work no probe has, and whose interval stands for their own."""
    return (
        f"no probe is of this kind: {'; '.join(unprobed)}; the interval shown is the widest that "
        "any provider has for such shapes"
    )
