"""Shapes that a provider refuses, with the nearest sizes that work."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import nbytes
from roofcal.core.records import PlanPoint
from roofcal.core.units import GB
from roofcal.models import calibrated
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.linear.model import is_made_of_linears, parts_of
from roofcal.ops.spec import OpSpec, Shape
from roofcal.ops.time_models import Sources


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
    known = dict[str, None]()
    if by == calibrated.MODEL and sources.calibration is not None:
        for name in (op.name, *(("gemm",) if op.computes == "product" else ())):
            names = calibrated_providers(sources.calibration.constants, name, recipe)
            known |= dict.fromkeys(names)
    return list(known) or whole_providers(op, recipe, device), bool(known)


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
    op, shape = BY_NAME[point.op], point.shape
    needed = op.work(point.recipe, shape).dram_bytes
    if op.computes == "cast":
        written = op.work(point.recipe, shape).dram_write_bytes
        needed = nbytes("bf16", shape["rows"] * shape["cols"]) + written
    elif op.computes is None and {"m", "n", "k"} <= shape.keys():
        m, n, k = (shape[axis] for axis in "mnk")  # of products: a byte per element of x and w
        needed = m * k + n * k + nbytes("bf16", m * n)
    needed /= point.world_size
    if needed <= spec.dram_bytes:
        return None
    sizes = ", ".join(f"{axis}={size}" for axis, size in point.shape.items())
    return (
        f"{point.op} {point.recipe} of {sizes} does not fit {spec.device}: its tensors take "
        f"{needed / GB:,.0f} GB, and the memory has {spec.dram_bytes / GB:.0f}"
    )
