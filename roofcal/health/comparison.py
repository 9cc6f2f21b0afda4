"""Which cards of a fleet are slower than the others, by how much, and why.

The deviation of a card on a point is the logarithm of its time over the median of the cards that
have the point; on an op, the median over its points. A card is slower if its deviation exceeds its
limit, which comes from the other cards (`limit_from_others`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RunFolder, RunsError, find_publication, run_folders
from roofcal.core.records import Environment
from roofcal.core.visits.differences import healthy_values, limit_from_others
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL, POINT, PROTOCOL, Column, SeenPoint, declared
from roofcal.points.reader import NOT_REACHED, read_points, with_intervals

FEWEST: Final = 3  # cards that have a point: two that differ do not say which is slow
_FEWEST_OF_FLEET: Final = 5  # before the publication is left: limits of three or four are wide
_OTHER_ENVIRONMENT: Final = (
    ", measured in another environment, which may make a difference by itself"
)
_EXPLAINS: Final = 0.5  # share of a deviation that a cause has to account for
_HOTTER_C: Final = 5.0  # beyond the fleet's median, and with a thermal reason: temperature
_OFTENER: Final = 0.2  # share of its time above the fleet's median

# Name of a card -> its points of the panel, see `read_card`.
Cards = Mapping[str, pd.DataFrame]


class HealthError(ValueError):
    """Records by which no card can be judged; the message says which, and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """One card on one op against the fleet.

    deviation  of the logarithm of time; 0.05 is 5 % slower
    limit      what a healthy card does not exceed, from the other cards
    """

    card: str
    op: str
    deviation: float
    limit: float

    @property
    def excess(self) -> float:
        """How far it is beyond the limit."""
        return self.deviation - self.limit

    @property
    def is_slower(self) -> bool:
        """Whether it is beyond the limit."""
        return self.deviation > self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVerdict:
    """One card: its deviation on each op that could be compared, and the points that it fails.

    cause       what makes it slow; None if it is not
    failures    point, status and reason of points that it could not do
    uncompared  measured op that could not be compared -> why
    """

    card: str
    deviations: tuple[Deviation, ...]
    cause: str | None
    failures: Sequence[Mapping[str, str]] = ()
    uncompared: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_healthy(self) -> bool:
        """Whether it was compared, is not slower, and fails no point."""
        return bool(self.deviations) and self.cause is None and not self.failures

    @property
    def word(self) -> str:
        """What is wrong with it in one word or a few; "" for a healthy card."""
        if self.cause or self.failures:
            return self.cause or "fails a point"
        return "" if self.deviations else "no point in common"

    @property
    def excess(self) -> float:
        """The largest deviation beyond its limit; infinite if no op could be compared."""
        return max((one.excess for one in self.deviations), default=math.inf)


def _mean_reading(sensor: str) -> Callable[[SeenPoint], float | None]:
    return lambda point: fmean(readings) if (readings := point.readings(sensor)) else None


_READ: Final = (
    *declared("status", "reason"),
    Column("limited", "object", lambda point: point.throttle_shares),
    Column("clock_hz", "number", _mean_reading("sm_clock_hz")),
    Column("power_w", "number", _mean_reading("power_w")),
    Column("temperature_c", "number", _mean_reading("temperature_c")),
)
COLUMNS: Final = ["op", "point", "seconds", "half_width", *(column.name for column in _READ)]


def read_card(folder: Path) -> pd.DataFrame:
    """The points of the panel that one card ran, by the records of its run folder.

    op, point   the point's name for a person
    seconds     median, or the geometric mean of the medians of several visits; not a number for a
                point without a time
    half_width  half the 95 % interval of that, as a fraction of it
    status, reason  of its record
    limited     share of the readings of each throttle reason, e.g. {"power_cap": 0.9}
    clock_hz, power_w, temperature_c  means of settled readings; not a number without any
    """
    run = RunFolder.at(folder)
    parts = [pd.DataFrame(columns=COLUMNS)]
    for op in run.measured_ops():
        table = with_intervals(*read_points(run, op, _READ), of_sentinels=False)
        intervals = table[INTERVAL]
        times = [math.nan if i is None else i.median for i in intervals]
        widths = [math.nan if i is None else i.half_width_fraction for i in intervals]
        names = []  # by which a person tells a point of the panel from the others
        for point in table[POINT]:
            shape = ",".join(f"{axis}={size}" for axis, size in point.shape.items())
            protocol = [getattr(point.protocol, name) for name in PROTOCOL]
            who = (point.op, point.provider, point.recipe, shape, str(point.world_size))
            names.append(" ".join((*who, *protocol)))
        parts.append(table.assign(op=op, point=names, seconds=times, half_width=widths)[COLUMNS])
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def read_fleet(root: Path) -> Cards:
    """All cards below results/fleet/<device>/<environment>/.

    Raises HealthError for fewer than three cards, because two that differ do not say which is
    slow, and for cards of several environments; RecordsError for a bad file.
    """
    runs = run_folders(root)
    if len(runs) < FEWEST:
        raise HealthError(
            f"{root}: holds measurements of {len(runs)} card(s) as <node>/<card>/; give at least "
            "three, each measured by `roofcal health --out DIR`"
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
    return {run.name: read_card(run.folder) for run in runs}


def timed_points(cards: Cards) -> pd.DataFrame:
    """The points with a time of all cards, and which `card` each is of."""
    every = [points.assign(card=name) for name, points in cards.items()]
    table = pd.concat([points for points in every if len(points)] or every[:1], ignore_index=True)
    return table[table["seconds"].notna()]


def compare_cards(cards: Cards) -> list[CardVerdict]:
    """A verdict per card: those that fail points first, then the slowest.

    Each point is compared over the cards that have it. Raises HealthError if no point is on three.
    """
    timed = timed_points(cards)
    logs = np.log(timed["seconds"]).groupby([timed[n] for n in ("op", "point", "card")], sort=False)
    of_cards = logs.median()
    by_point = of_cards.groupby(level=["op", "point"])
    is_common = by_point.transform("size") >= FEWEST
    relative = (of_cards - by_point.transform("median"))[is_common]
    by_op = relative.groupby(level=["op", "card"], sort=False).median()
    if by_op.empty and all(not _failures(points) for points in cards.values()):
        raise HealthError(
            f"{', '.join(cards)}: no point was measured on {FEWEST} of these cards; measure them "
            "again with one config/health.yaml"
        )
    deviations: dict[str, list[Deviation]] = {name: [] for name in cards}
    for op, of_op in by_op.groupby(level="op", sort=False):
        values = of_op.to_numpy()
        centre = float(np.mean(healthy_values(values)))
        for place, (card, value) in enumerate(of_op.droplevel("op").items()):
            limit = limit_from_others(np.delete(values, place), len(by_op))
            one = Deviation(card=str(card), op=str(op), deviation=value - centre, limit=limit)
            deviations[one.card].append(one)
    lacking = f"no point of it is on {FEWEST} cards"
    verdicts = []
    for name, points in cards.items():
        why_not = dict.fromkeys(timed["op"][timed["card"] == name], lacking)
        verdicts.append(_verdict(name, points, deviations[name], timed, why_not))
    return sorted(verdicts, key=lambda verdict: (not verdict.failures, -verdict.excess))


def _failures(points: pd.DataFrame) -> list[dict[str, str]]:
    """Points that a card could not do; reason is the first line of the fault.

    A point that is `unsupported` is no failure: the machine lacks a part of it, such as a second
    GPU.
    """
    is_fault = ~points["status"].isin(["ok", "unsupported", NOT_REACHED])
    rows = points[points["seconds"].isna() & is_fault][["point", "status", "reason"]]
    return [
        {"point": point, "status": status, "reason": (reason or "").partition("\n")[0]}
        for point, status, reason in rows.itertuples(index=False)
    ]


def _verdict(
    card: str,
    points: pd.DataFrame,
    deviations: Sequence[Deviation],
    timed: pd.DataFrame,
    why_not: Mapping[str, str],
) -> CardVerdict:
    """timed: points with a time of this and of other cards.

    why_not: measured op -> why it has no deviation, if it has none.
    """
    compared = {one.op for one in deviations}
    slow = [one for one in deviations if one.is_slower]
    return CardVerdict(
        card=card,
        deviations=tuple(deviations),
        cause=cause_of(card, slow, timed) if slow else None,
        failures=_failures(points),
        uncompared={op: reason for op, reason in why_not.items() if op not in compared},
    )


def cause_of(card: str, slow: Sequence[Deviation], readings: pd.DataFrame) -> str:
    """What the state of a slow card says: the names are those of docs/run.md."""
    ops = {one.op for one in slow}
    rows = readings[readings["op"].isin(ops)]
    by_card = rows.groupby("card")

    def surplus(values: "pd.Series[float]") -> float:
        """The value of the card less the median of the others; 0 where either has none."""
        numbers = values.dropna()
        others = numbers.drop(card, errors="ignore")
        return numbers[card] - float(others.median()) if card in numbers and len(others) else 0.0

    def oftener(reason: str) -> float:
        shares = rows["limited"].map(lambda limited: limited.get(reason, 0.0))
        return surplus(shares.groupby(rows["card"]).mean())

    clocks = by_card["clock_hz"].median()
    slower_clock = -surplus(np.log(clocks[clocks > 0]))
    if slower_clock >= _EXPLAINS * max(one.deviation for one in slow):
        reasons = sorted({reason for limited in rows["limited"] for reason in limited})
        thermal = max((oftener(reason) for reason in reasons if "thermal" in reason), default=0.0)
        hotter = surplus(by_card["temperature_c"].median())
        if thermal > _OFTENER or (thermal > 0 and hotter > _HOTTER_C):
            return "temperature"
        if oftener("power_cap") > _OFTENER:
            return "power cap"
        others = [reason for reason in reasons if oftener(reason) > _OFTENER]
        return f"throttle reason {others[0]}" if others else "clock"
    if all(BY_NAME[op].received_bytes or op == "probe_link" for op in ops):
        return "link"
    if all(BY_NAME[op].computes != "product" for op in ops) and "probe_copy" in ops:
        return "memory"
    return "unexplained"


def compare_with_publication(
    card: str, points: pd.DataFrame, published: pd.DataFrame, threshold: float
) -> CardVerdict:
    """The verdict on one card, by the points that one published card of its kind has too.

    The whole interval, that of the middle point, has to lie beyond the threshold. An op whose
    interval is wider than the threshold says nothing: a card could be slower by twice that. Raises
    HealthError if no op can be compared and no point fails.
    """
    own, other = (timed_points({name: of}) for name, of in ((card, points), ("", published)))
    other = other.drop_duplicates("point", keep="last")
    pairs = own.merge(other, on=["op", "point"], suffixes=("", "_published"))
    why_not = dict.fromkeys(own["op"], "not in the publication")
    deviations = []
    for op, of_op in pairs.groupby("op", sort=False):
        ratio = float(np.median(np.log(of_op["seconds"] / of_op["seconds_published"])))
        width = float(np.median(np.hypot(of_op["half_width"], of_op["half_width_published"])))
        if width > threshold:
            why_not[str(op)] = (
                f"its times scatter too much (95 % interval) to tell {threshold:.1%}; stop what "
                "runs beside it and measure again"
            )
            continue
        limit = math.log1p(threshold) + width
        deviations.append(Deviation(card=card, op=str(op), deviation=ratio, limit=limit))
    if not deviations and not _failures(points):
        reasons = "".join(f"; {op}: {why}" for op, why in why_not.items())
        raise HealthError(
            f"{card}: no point of config/health.yaml can be compared with the publication"
            f"{reasons}; or measure {FEWEST} cards of its kind, which are compared with each other"
        )
    common = [table[table["point"].isin(pairs["point"])] for table in (own, other)]
    return _verdict(card, points, deviations, pd.concat(common), why_not)


def judge_card(
    folder: Path, environment: Environment, threshold: float
) -> tuple[list[CardVerdict], str]:
    """(the verdict on one card, what it is compared with where that is a publication).

    docs/fleet.md says with what. Raises HealthError where nothing can be compared.

    folder: <device>/<environment_id>/<node>/<card>, with the records of the others beside it.
    """
    card, root = f"{folder.parent.name}/{folder.name}", folder.parents[1]
    cards = len(list(root.glob("*/*/environment.jsonl")))
    if cards < _FEWEST_OF_FLEET:
        try:
            # Not a run of this machine: a card that is compared with itself is healthy.
            run = find_publication(environment.device, environment.environment_id)
        except RunsError as error:
            if cards < FEWEST:
                raise HealthError(
                    f"this card was measured ({folder}), and there is nothing to compare it with: "
                    f"fewer than two others of its kind were measured, and {error}. Run `roofcal "
                    "health` on two more, and the three are compared with each other"
                ) from None
        else:
            other = "" if run.environment_id == environment.environment_id else _OTHER_ENVIRONMENT
            published = read_card(run.folder)
            verdict = compare_with_publication(card, read_card(folder), published, threshold)
            return [verdict], f"compared with the publication {run.name}{other}"
    own = [verdict for verdict in compare_cards(read_fleet(root)) if verdict.card == card]
    if not any(verdict.deviations or verdict.failures for verdict in own):
        raise HealthError(
            f"this card was measured ({folder}), and {FEWEST - 1} other cards of its fleet have "
            "no point of it; measure them again with one config/health.yaml"
        )
    return own, ""
