"""What the records of a folder say of a card: a time per point, and the card's state behind it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Final

from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Environment, PlanPoint
from roofcal.core.visits.intervals import HOLDS
from roofcal.points.columns import INTERVAL, POINT, Column, declared
from roofcal.points.reader import NOT_REACHED, read_points, with_intervals

_STATE: Final = {"clock_hz": "sm_clock_hz", "power_w": "power_w", "temperature_c": "temperature_c"}
_COLUMNS: Final = (
    *declared("status", "reason"),
    Column("limited", "object", lambda p: p.throttle_shares),
    Column(
        "state",
        "object",
        lambda p: {n: fmean(v) if (v := p.readings(s)) else None for n, s in _STATE.items()},
    ),
)


class HealthError(ValueError):
    """Records that no card can be judged by; the message says which, and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One point of the panel that a card could not do; reason is the first line of the fault."""

    point: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One point on one card.

    seconds      median, or the geometric mean of the medians of several visits
    half_width   half the 95 % interval of that, as a fraction of it
    holds        how far that interval can be trusted, see roofcal.core.visits.intervals.HOLDS
    limited      share of the readings of each throttle reason, e.g. {"power_cap": 0.9}
    clock_hz, power_w, temperature_c  means of settled readings; None without any, as on a CPU
    """

    card: str
    op: str
    point: str
    seconds: float
    half_width: float
    holds: str = HOLDS["samples"]
    clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    limited: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What the panel gave on one card."""

    name: str
    readings: Sequence[Reading]
    failures: Sequence[Failure] = ()


def read_card(folder: Path, card: str) -> Card:
    """The readings and failures of a run folder.

    A point that is `unsupported` is no failure: the machine lacks a part of it, such as a second
    GPU.
    """
    run = RunFolder.at(folder)
    readings: list[Reading] = []
    failures: list[Failure] = []
    for op in run.measured_ops():
        table, sessions = read_points(run, op, _COLUMNS)
        timed = with_intervals(table, sessions, of_sentinels=False)
        for row in timed.to_dict("records"):
            name, interval = _name(row[POINT]), row[INTERVAL]
            if interval is not None:
                reading = Reading(
                    card=card,
                    op=op,
                    point=name,
                    seconds=interval.median,
                    half_width=interval.half_width_fraction,
                    holds=interval.holds,
                    limited=row["limited"],
                    **row["state"],
                )
                readings.append(reading)
            elif row["status"] not in ("ok", "unsupported", NOT_REACHED):
                reason = (row["reason"] or "").partition("\n")[0]
                failures.append(Failure(point=name, status=row["status"], reason=reason))
    return Card(name=card, readings=readings, failures=failures)


def read_fleet(root: Path) -> list[Card]:
    """All cards below results/fleet/<device>/<environment>/.

    Raises HealthError for fewer than three cards, because two that differ do not say which is
    slow, and for cards of several environments; RecordsError for a bad file.
    """
    runs = run_folders(root)
    if len(runs) < 3:
        raise HealthError(
            f"{root}: holds measurements of {len(runs)} card(s) as <node>/<card>/; give at least "
            "three, each measured by `python -m roofcal health --out DIR`"
        )
    cards_by_environment: dict[str, list[str]] = {}
    for run in runs:
        environment = read_single_record(run.environment_file, Environment)
        name = f"{environment.device}/{environment.environment_id}"
        cards_by_environment.setdefault(name, []).append(run.name)
    if len(cards_by_environment) > 1:
        described = "; ".join(f"{e}: {', '.join(c)}" for e, c in cards_by_environment.items())
        raise HealthError(
            f"{root}: holds cards of several environments, whose times differ by more than the "
            f"cards ({described}); move those of each into a folder of its own"
        )
    return [read_card(run.folder, run.name) for run in runs]


def _name(point: PlanPoint) -> str:
    """What tells a point from the others of the panel, for a person."""
    shape = ",".join(f"{axis}={size}" for axis, size in point.shape.items())
    names = (point.op, point.provider, point.recipe, shape, str(point.world_size))
    protocol = (point.protocol.method, point.protocol.cache, point.protocol.distribution)
    return " ".join((*names, *protocol))


def median_by_card(readings: Iterable[Reading], name: str) -> dict[str, float]:
    """Card -> median of a field of its readings, of the cards that have it."""
    values: dict[str, list[float]] = {}
    for reading in readings:
        if (value := getattr(reading, name)) is not None:
            values.setdefault(reading.card, []).append(value)
    return {card: median(of_card) for card, of_card in values.items()}
