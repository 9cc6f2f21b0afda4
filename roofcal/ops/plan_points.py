"""Whether a planned point is one that its op has: plans come from files, and from strangers."""

from collections.abc import Iterable

from roofcal.core.names import did_you_mean
from roofcal.core.records import PlanPoint
from roofcal.ops import BY_NAME


def regimes(points: Iterable[PlanPoint]) -> list[str]:
    """The regime of each point: those of one speed up and slow down together on another card."""
    return [BY_NAME[point.op].regime(point.shape) for point in points]


def point_problem(point: PlanPoint) -> str | None:
    """Which axis or recipe a point has that its op does not have; None for a sound point.

    Points of an op that this roofcal does not know are not judged.
    """
    op = BY_NAME.get(point.op)
    if op is None:
        return None
    if set(point.shape) != set(op.axes):
        return f"the shape {dict(point.shape)} has not the axes {', '.join(op.axes)} of {op.name}"
    if not op.has_recipe(point.recipe):
        return f"unknown recipe '{point.recipe}'{did_you_mean(point.recipe, op.recipes)}"
    return None
