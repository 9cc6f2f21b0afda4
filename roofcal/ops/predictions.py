"""What predictions from calibrated constants have in common: groups, spans of probes, intervals.

The 95 % interval of a prediction is prediction / f to prediction * f. The factor f is exp(e), where
e is the half-width of the group of the shape (roofcal.fitting.intervals): `log_p95_<group>` of a
calibration's errors.

A group without probes of the provider, as of rows off 16 bytes that a provider was not probed with,
has the largest half-width that the group has with any provider, and at least UNPROBED times that of
the provider and recipe. The answer is marked.

A span has the smallest and largest size of each axis of the probes of a provider and recipe, and
of their operations and bytes, because no probe has its largest size on all axes at once. The
distance of a shape is the number of doublings to the span, of the axis that is farthest outside.
Outside of the probes e grows by GROWTH of its own size with every doubling, up to MOST_DOUBLINGS,
and f to MOST_FACTOR at most; f is never smaller than inside. The low end is not below the least
bytes at the bandwidth of streams; where the time itself is below, it is the time. The low end of a
wider interval is not below the other roofs either (the shortest kernel, the operations at the rate
of the fastest probe), except where the interval without widening is below them already.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from roofcal.core.portable_math import exp, log
from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, BeyondProbes, Times
from roofcal.ops.constants import calibrated_providers, decode_family, values_of_pair
from roofcal.ops.spec import OpSpec

_LN2: Final = 0.6931471805599453
Span = Mapping[str, tuple[float, float]]
Groups = Sequence[str] | NDArray[np.str_]  # of shapes
NOTICEABLE: Final = 0.05  # doublings: 3.5 % beyond the largest probe is no extrapolation
UNPROBED: Final = 2.0
# Of an H200's probes, the largest and the smallest fifth along each axis is left out in turn. Up to
# 2 doublings outside of the rest, products, casts and narrow weights are 1.3, 1.1 and 1.0 times as
# far off as inside, from 2 to 3 doublings 1.2, 1.2 and 1.4 times, beyond 1.5, 2.4 and 2.4 times.
GROWTH: Final = 0.25
MOST_DOUBLINGS: Final = 4.0
MOST_FACTOR: Final = 4.0
_PARTS: Final = ("math_s", "dram_s", "link_s", "launch_s")


class TimesAndParts(NamedTuple):
    """Seconds of many points, and of their parts by the name of the field in a Prediction."""

    times: Times
    parts: Mapping[str, Array] = MappingProxyType({})


class Parts(Protocol):
    """What the equation of an op answers for vectors of sizes."""

    @property
    def total(self) -> Array:
        """Seconds of each point."""

    @property
    def bound_by(self) -> list[str]:
        """The longest part of each point, in a word."""

    @property
    def seconds(self) -> Mapping[str, Array]:
        """Seconds of its parts by the name of the field in a Prediction."""


def parts_of_pair(
    equation: Any, calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Any:
    """What the equation of an op answers, with the constants of a provider and recipe.

    equation: model.py of the op, see roofcal.ops.constants. sizes: vectors along the axes of the
    op. Raises KeyError for a pair that was not calibrated.
    """
    constants, names = calibration.constants, (equation.FAMILY, *equation.CONSTANTS)
    values = values_of_pair(constants, f"{equation.OP.name}.{provider}.{recipe}", names)
    family = decode_family(equation.FAMILIES, values.pop(equation.FAMILY))
    units = int(constants["compute_units"].value)
    return equation.evaluate(values, family, recipe, sizes, units)


def answer_of(
    equation: Any, calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> TimesAndParts:
    """Seconds with intervals, as `parts_of_pair`."""
    parts: Parts = parts_of_pair(equation, calibration, provider, recipe, sizes)
    times = Times(total=parts.total, bound_by=parts.bound_by)
    groups = equation.groups_of(recipe, sizes)
    pair = (provider, recipe)
    timed = with_interval(times, calibration, equation.OP, pair, sizes, groups)
    return TimesAndParts(timed, parts.seconds)


def predict_groups(
    points: Sequence[PlanPoint],
    model: str,
    candidates: Callable[[PlanPoint], Iterable[str]],
    answer: Callable[[str, Sequence[PlanPoint]], TimesAndParts | None],
    *,
    only_first: bool = False,
) -> list[Prediction]:
    """A prediction per point that has an answer, in their order: that of the fastest candidate.

    Args:
        points: to predict.
        model: its name.
        candidates: providers that may answer for a point.
        answer: of a candidate, and of points of one op, recipe and world size; None for what is
            not known.
        only_first: take the first candidate that answers, not the fastest.
    """
    groups: dict[tuple[tuple[str, ...], str, str, int], list[PlanPoint]] = {}
    for point in points:
        key = (tuple(candidates(point)), point.op, point.recipe, point.world_size)
        groups.setdefault(key, []).append(point)
    fastest: dict[str, Prediction] = {}
    for (providers, *_), members in groups.items():
        for provider in providers:
            times = answer(provider, members)
            for prediction in predictions_of(members, model, times) if times else ():
                best = fastest.setdefault(prediction.point_id, prediction)
                if prediction.total_s < best.total_s:
                    fastest[prediction.point_id] = prediction
            if only_first and members[0].point_id in fastest:
                break
    return [fastest[point.point_id] for point in points if point.point_id in fastest]


def predict_fastest(
    equation: Any, points: Sequence[PlanPoint], calibration: Calibration, model: str
) -> list[Prediction]:
    """A prediction per point whose provider and recipe an op was calibrated for, in their order.

    A point without a provider is answered for the fastest provider that was calibrated and takes
    sizes that small; a point whose provider does not has no answer. equation: model.py of the op.
    """
    op: OpSpec = equation.OP

    def candidates(point: PlanPoint) -> Iterator[str]:
        for provider in calibrated_providers(calibration.constants, op.name, point.recipe):
            refused = op.refused_axes(provider, point.recipe, point.shape).items()
            is_too_small = any(is_small for (_, kind), is_small in refused if kind == "least")
            if point.provider in ("", provider) and not is_too_small:
                yield provider

    def answer_members(provider: str, members: Sequence[PlanPoint]) -> TimesAndParts:
        sizes = sizes_of(members, op.axes)
        return answer_of(equation, calibration, provider, members[0].recipe, sizes)

    return predict_groups(points, model, candidates, answer_members)


def least_bytes_of(op: OpSpec, recipe: str, points: Iterable[PlanPoint]) -> Array:
    """Least bytes of each point, as a float64 vector."""
    return np.array([op.work(recipe, point.shape).dram_bytes for point in points], dtype=float)


def sizes_of(points: Sequence[PlanPoint], axes: Sequence[str]) -> list[Array]:
    """The sizes of points along each axis, as float64 vectors."""
    return [np.array([float(point.shape[axis]) for point in points]) for axis in axes]


def probe_spans(op: OpSpec, points: Iterable[PlanPoint]) -> dict[str, Span]:
    """The span of the points of a probe op by "<op that it calibrates>.<provider>.<recipe>"."""
    spans: dict[str, dict[str, tuple[float, float]]] = {}
    for point in points:
        span = spans.setdefault(f"{op.folder}.{point.provider}.{point.recipe}", {})
        for name, size in extents(op, point.recipe, point.shape).items():
            low, high = span.get(name, (float(size), float(size)))
            span[name] = min(low, float(size)), max(high, float(size))
    return dict(spans)


def doublings_outside(
    calibration: Calibration, op: OpSpec, provider: str, recipe: str, sizes: Mapping[str, Any]
) -> Array | None:
    """Doublings from shapes to the span of their probes, 0 within; None where there were none.

    sizes: axis -> a size, or a vector of sizes.
    """
    span = calibration.probe_spans.get(f"{op.name}.{provider}.{recipe}", {})
    beyond = [
        np.maximum(size / span[name][1], span[name][0] / size)
        for name, size in extents(op, recipe, sizes).items()
        if name in span
    ]
    if not beyond:
        return None
    doublings = log(np.asanyarray(reduce(np.maximum, beyond), dtype=float)) / _LN2
    farther: Array = np.where(doublings > NOTICEABLE, doublings, 0.0)
    return farther


def extents(op: OpSpec, recipe: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """What a span has of shapes: sizes by axis, least bytes, and operations of a product."""
    work = op.work(recipe, sizes)
    own = {axis: sizes[axis] for axis in op.axes} | {"bytes": work.dram_bytes}
    return own | ({} if work.math_dtype is None else {"flops": work.flops})


def half_widths(calibration: Calibration, name: str, groups: Groups) -> Array:
    """Half of the interval of each shape by its group, as logarithms, inside of the probes.

    name: "<op>.<provider>.<recipe>". Raises KeyError for a pair without errors.
    """
    return _by_group(groups, lambda group: half_width(calibration, name, group))


def _by_group(groups: Groups, value_of: Callable[[str], float]) -> NDArray[Any]:
    """What stands for the group of each shape."""
    names, places = np.unique(groups, return_inverse=True)
    values = np.array([value_of(str(name)) for name in names])
    return np.take_along_axis(values, places, axis=0)


def half_width(calibration: Calibration, name: str, group: str) -> float:
    """Half of the interval of a group of shapes, as a logarithm, inside of the probes."""
    errors = calibration.probe_errors[name]
    if has_probes(calibration, name, group):
        return errors.get(f"log_p95_{group}", errors["log_p95"])
    op = name.partition(".")[0]
    with_others = [
        other[f"log_p95_{group}"]
        for other_name, other in calibration.probe_errors.items()
        if other_name.startswith(f"{op}.") and f"log_p95_{group}" in other
    ]
    return max(UNPROBED * errors["log_p95"], *with_others, 0.0)


def has_probes(calibration: Calibration, name: str, group: str) -> bool:
    """Whether the provider of a pair was probed with shapes of a group.

    A pair whose errors tell no groups apart has probes of all.
    """
    errors = calibration.probe_errors[name]
    return f"log_p95_{group}" in errors or not any(key.startswith("log_p95_") for key in errors)


def with_interval(
    times: Times,
    calibration: Calibration,
    op: OpSpec,
    pair: tuple[str, str],
    sizes: Sequence[Array],
    groups: Groups,
) -> Times:
    """Times with the intervals of the module; raises KeyError for a pair without errors.

    pair: provider and recipe. sizes: vectors along the axes of the op. groups: of each shape.
    """
    (provider, recipe), name = pair, f"{op.name}.{pair[0]}.{pair[1]}"
    by_axis = dict(zip(op.axes, sizes, strict=True))
    widths = half_widths(calibration, name, groups)
    factors = exp(widths)
    low, high = times.total / factors, times.total * factors
    roofs = calibrated_roofs(calibration, op, provider, recipe)
    least = extents(op, recipe, by_axis)
    memory_floor = np.zeros_like(times.total)
    if roofs["bytes_per_s"]:
        # Of 3,800 published points with cold operands none was faster than that; nearest 4 %.
        memory_floor = memory_floor + least["bytes"] / roofs["bytes_per_s"]
        low = np.maximum(low, np.minimum(memory_floor, times.total))
    outside = doublings_outside(calibration, op, provider, recipe, by_axis)
    if outside is not None and outside.any():
        wide = exp(widened(widths, outside))
        # no lower than the longest of the roofs of the module
        floor = np.maximum(memory_floor, roofs["launch_s"])
        if roofs["flops_per_s"]:
            floor = np.maximum(floor, least["flops"] / roofs["flops_per_s"])
        low = np.maximum(times.total / wide, np.minimum(low, floor))
        high = times.total * wide
    unprobed = _by_group(groups, lambda group: not has_probes(calibration, name, group))
    beyond = None
    if outside is not None or unprobed.any():
        doublings = np.zeros_like(times.total) if outside is None else outside
        beyond = BeyondProbes(doublings=doublings, is_unprobed=unprobed)
    return replace(times, low=low, high=high, beyond=beyond)


def widened(half_widths: Array, doublings: Array) -> Array:
    """Half-widths, as logarithms, at so many doublings outside of the probes, of those inside."""
    grown = half_widths * (1 + GROWTH * np.minimum(doublings, MOST_DOUBLINGS))
    wide: Array = np.minimum(grown, np.maximum(half_widths, math.log(MOST_FACTOR)))
    return wide


def calibrated_roofs(
    calibration: Calibration, op: OpSpec, provider: str, recipe: str
) -> dict[str, float]:
    """launch_s, bytes_per_s and flops_per_s as probes showed them; 0 for one that none showed."""
    names = {
        "launch_s": "launch_graph_s",
        "bytes_per_s": "dram_read_bytes_per_s",
        "flops_per_s": f"{op.name}.{provider}.{recipe}.ceiling_flops_per_s",
    }
    constants = calibration.constants
    return {
        roof: constants[name].value if name in constants else 0.0 for roof, name in names.items()
    }


def predictions_of(
    points: Sequence[PlanPoint], model: str, answer: TimesAndParts
) -> list[Prediction]:
    """An answer as records, one per point."""
    times, parts = answer
    return [
        Prediction(
            point_id=point.point_id,
            model=model,
            **{name: float(parts[name][i]) if name in parts else None for name in _PARTS},
            total_s=float(times.total[i]),
            low_s=None if times.low is None else float(times.low[i]),
            high_s=None if times.high is None else float(times.high[i]),
            bound_by=times.bound_by[i],
        )
        for i, point in enumerate(points)
    ]
