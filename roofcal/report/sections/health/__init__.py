"""Is my GPU healthy? The answer, what it rests on, and the tables behind it."""

from collections.abc import Iterator
from typing import Final

from roofcal.core.statistics import BETWEEN_CARDS, FEWEST_SAMPLES
from roofcal.report.kit.blocks import Block, Prose
from roofcal.report.kit.columns import (
    HOLDS_COLUMN,
    code,
    count,
    fraction,
    ratio,
    seconds,
    text,
    texts,
)
from roofcal.report.kit.numbers import percent
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, Section, filled_table
from roofcal.report.sections.health.comparison import Health, health_of_run

FILE: Final = "health.csv"
_TIME: Final = ratio("ratio", "time", "here over published, median over points", digits=3)
KINDS: Final = (
    text("kind", "kind of work"),
    count("points", "shared points"),
    _TIME,
    ratio("low", "95 % from", digits=3),
    ratio("high", "to", digits=3),
    ratio("p5", "5th percentile", digits=3),
    ratio("p95", "95th", digits=3),
    ratio("clock", "SM clock"),
    ratio("power", "power"),
    fraction("throttled", "clocked down", digits=0),
    fraction("throttled_published", "published", digits=0),
    text("reasons", "reasons named here"),
)
POINTS: Final = (
    text("kind", "kind of work"),
    *texts("provider", "recipe", "shape"),
    _TIME,
    ratio("ratio_low", "95 % from", digits=3),
    ratio("ratio_high", "to", digits=3),
    HOLDS_COLUMN,
    seconds("median_s", "here"),
    seconds("median_s_published", "published"),
    ratio("clock", "SM clock"),
    code("point_id", "point"),
)


def _blocks(health: Health, writer: SectionWriter) -> Iterator[Block]:
    if health.against is None:
        return
    yield Prose(text=_explanation(health))
    if health.kinds.empty:
        return
    title = "Times here over times published"
    yield writer.table("health-kinds", title, health.kinds, KINDS, FILE)
    points = health.points.assign(
        clock=health.points["sm_clock_hz"] / health.points["sm_clock_hz_published"]
    ).sort_values("ratio", ascending=False, kind="stable")
    yield writer.table("health-points", "Every shared point, slowest first", points, POINTS, FILE)


def _explanation(health: Health) -> str:
    software = (
        "It is of the same environment."
        if health.same_environment
        else "It has another driver, torch or other settings, which may cause a difference: see "
        "What moved."
    )
    return (
        f"Compared with the publication ({health.against}). {software} A kind of work is slower if "
        f"the 95 % interval of its median ratio lies above {percent(BETWEEN_CARDS, 0)}, healthy if "
        f"it lies below; kinds of fewer than {FEWEST_SAMPLES} points do not count. Two healthy "
        "cards of one model differ by almost as much at the power limit."
    )


SECTION = Section(
    "Against the published distribution",
    "healthy",
    lambda analysis: health_of_run(analysis.run, analysis.frames, analysis.peers),
    _blocks,
    tables=lambda health: filled_table(FILE, health.points),
    answer=lambda health: Answer(health.answer, is_open=health.state == "cannot be told"),
)
