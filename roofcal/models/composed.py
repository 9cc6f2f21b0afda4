"""Points of any op by any model of time: its own answers, and ops made of what it can answer."""

from collections.abc import Sequence

from roofcal.core.records import PlanPoint, Prediction
from roofcal.models import gathered_points, linear_points
from roofcal.models.registry import Model
from roofcal.models.sources import Sources


def predict(model: Model, points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the model can answer, of any op, in the order of the points."""
    found = {made.point_id: made for made in linear_points.predict(model, points, sources)}
    rest = [point for point in points if point.point_id not in found]
    found |= {made.point_id: made for made in gathered_points.predict(model, rest, sources)}
    return [found[point.point_id] for point in points if point.point_id in found]
