"""Points of any op by any model of time: its own answers, and ops made of what it can answer."""

from collections.abc import Sequence

from roofcal.predict import gathered_points, linear_points
from roofcal.predict.models import Model
from roofcal.predict.sources import Sources
from roofcal.records import PlanPoint, Prediction


def predict(model: Model, points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the model can answer, of any op, in the order of the points."""
    found = {made.point_id: made for made in linear_points.predict(model, points, sources)}
    rest = [point for point in points if point.point_id not in found]
    found |= {made.point_id: made for made in gathered_points.predict(model, rest, sources)}
    return [found[point.point_id] for point in points if point.point_id in found]
