"""Is my GPU healthy? The answer, what it rests on, and the tables behind it."""

from collections.abc import Iterator
from typing import Final

from roofcal.report.kit.blocks import Block, Column, Prose
from roofcal.report.kit.columns import count, fraction, ratio, seconds, text
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.writer import Pen
from roofcal.report.sections.health.comparison import FEWEST, TOLERANCE, Health

SOURCE: Final = "health.csv"
_OURS: Final = "here over published, median over points"
KINDS: Final = (
    text("kind", "kind of work"),
    count("points", "shared points"),
    Column(key="ratio", label="time", kind="number", show=lambda v: f"{v:.3f}", about=_OURS),
    Column(key="low", label="95 % from", kind="number", show=lambda v: f"{v:.3f}"),
    Column(key="high", label="to", kind="number", show=lambda v: f"{v:.3f}"),
    Column(key="p5", label="5th percentile", kind="number", show=lambda v: f"{v:.3f}"),
    Column(key="p95", label="95th", kind="number", show=lambda v: f"{v:.3f}"),
    ratio("clock", "SM clock"),
    ratio("power", "power"),
    fraction("throttled", "clocked down", digits=0),
    fraction("throttled_published", "published", digits=0),
    text("reasons", "reasons named here"),
)
POINTS: Final = (
    text("kind", "kind of work"),
    text("provider", "provider"),
    text("recipe", "recipe"),
    text("shape", "shape"),
    Column(key="ratio", label="time", kind="number", show=lambda v: f"{v:.3f}", about=_OURS),
    seconds("median_s", "here"),
    seconds("median_s_published", "published"),
    ratio("clock", "SM clock"),
    Column(key="point_id", label="point", kind="code"),
)


def blocks(pen: Pen) -> Iterator[Block]:
    """How the answer was found and the tables behind it; nothing without a publication."""
    found = pen.a.health
    if found.against is None:
        return
    yield Prose(text=_about(found, pen.a.environment_id))
    if found.kinds.empty:
        return
    title = "Times here over times published"
    yield pen.table("health-kinds", title, found.kinds, KINDS, SOURCE)
    shown = found.points.assign(
        clock=found.points["sm_clock_hz"] / found.points["sm_clock_hz_published"]
    ).sort_values("ratio", ascending=False, kind="stable")
    yield pen.table("health-points", "Every shared point, slowest first", shown, POINTS, SOURCE)


def _about(found: Health, environment_id: str) -> str:
    software = (
        "It is of the same environment."
        if found.against == environment_id
        else "Its driver, torch or settings are others, so that a difference may be theirs: see "
        "What moved."
    )
    return (
        f"Held against the publication {found.against}. {software} A kind of work is slower where "
        f"the 95 % interval of its median ratio lies above {percent(TOLERANCE, 0)}, healthy where "
        f"it lies below; kinds of fewer than {FEWEST} points do not count. Two healthy cards of "
        "one model differ by almost as much at the power limit."
    )
