"""A prediction as the longest of its parts, as rooflines have it."""

from roofcal.core.records import PlanPoint, Prediction


def longest_part(
    point: PlanPoint,
    model: str,
    *,
    math_s: float,
    dram_s: float,
    link_s: float | None = None,
    launch_s: float | None = None,
) -> Prediction:
    """The prediction of parts that overlap entirely; None for a part that the model has not."""
    parts = {"math": math_s, "dram": dram_s, "link": link_s, "launch": launch_s}
    seconds = {name: part for name, part in parts.items() if part is not None}
    longest = max(seconds, key=lambda name: seconds[name])
    return Prediction(
        point_id=point.point_id,
        model=model,
        math_s=math_s,
        dram_s=dram_s,
        link_s=link_s,
        launch_s=launch_s,
        total_s=seconds[longest],
        bound_by=longest,
    )
