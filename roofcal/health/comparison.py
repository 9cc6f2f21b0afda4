"""Which cards of a fleet are slower than the others, by how much, and why.

The deviation of a card on a point is the logarithm of its time over the median of the cards that
have the point; on an op, the median over its points. The limit of a card comes from the others, and
of them without those that stand out: median and MAD first (Rousseeuw and Croux, JASA 88, 1993),
then the standard deviation of the cards that these keep. A card is slower if its deviation exceeds
2 % *and* is so large that any healthy card shows it in less than one of 100 fleets (Student's t,
Bonferroni).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final

import numpy as np
from scipy.special import stdtrit  # not scipy.stats.t, whose import costs half a second

from roofcal.core.statistics import MATTERS
from roofcal.core.visits.differences import FALSE_ALARMS, Array, scatter
from roofcal.health.readings import Card, Failure, HealthError, Reading, median_by_card
from roofcal.ops import BY_NAME

FEWEST: Final = 3  # cards that have a point: two that differ do not say which is slow
_KEPT: Final = 3.5  # robust deviations from the median within which a card counts as healthy
_EXPLAINS: Final = 0.5  # share of a deviation that a cause has to account for
_HOTTER_C: Final = 5.0  # beyond the fleet's median, and with a thermal reason: temperature
_OFTENER: Final = 0.2  # more of its time than the fleet's median


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
    def is_slower(self) -> bool:
        """Whether it is beyond the limit."""
        return self.deviation > self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class CardVerdict:
    """One card: how it deviates on each op that could be compared, and what it fails.

    cause       what makes it slow; None if it is not
    uncompared  op that was measured and could not be compared -> why
    """

    card: str
    deviations: tuple[Deviation, ...]
    cause: str | None
    failures: tuple[Failure, ...] = ()
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
        return max((one.deviation - one.limit for one in self.deviations), default=math.inf)


def compare_cards(cards: Sequence[Card]) -> list[CardVerdict]:
    """A verdict per card: those that fail points first, then the slowest.

    Each point is compared over the cards that have it. Raises HealthError if no point is on three.
    """
    readings = [reading for card in cards for reading in card.readings]
    by_op = _values_by_op(readings)
    if not by_op and not any(card.failures for card in cards):
        raise HealthError(
            f"{', '.join(card.name for card in cards)}: no point was measured on {FEWEST} of these "
            "cards; measure them again with one config/health.yaml"
        )
    tests = sum(map(len, by_op.values()))
    deviations = []
    for op, of_op in by_op.items():
        values = np.array(list(of_op.values()))
        centre = float(np.mean(healthy_values(values)))
        for place, (card, value) in enumerate(of_op.items()):
            limit = limit_from_others(np.delete(values, place), tests)
            deviation = value - centre
            deviations.append(Deviation(card=card, op=op, deviation=deviation, limit=limit))
    lacking = f"no point of it is on {FEWEST} cards"
    verdicts = [
        _verdict(
            own,
            [one for one in deviations if one.card == own.name],
            readings,
            dict.fromkeys((reading.op for reading in own.readings), lacking),
        )
        for own in cards
    ]
    return sorted(verdicts, key=lambda verdict: (not verdict.failures, -verdict.excess))


def _verdict(
    card: Card,
    deviations: Iterable[Deviation],
    readings: Sequence[Reading],
    why_not: Mapping[str, str],
) -> CardVerdict:
    """why_not: measured op -> why it has no deviation, if it has none."""
    own = tuple(deviations)
    compared = {one.op for one in own}
    uncompared = {op: why for op, why in why_not.items() if op not in compared}
    slow = [one for one in own if one.is_slower]
    cause = cause_of(card.name, slow, readings) if slow else None
    failures = tuple(card.failures)
    return CardVerdict(
        card=card.name, deviations=own, cause=cause, failures=failures, uncompared=uncompared
    )


def _values_by_op(readings: Iterable[Reading]) -> dict[str, dict[str, float]]:
    """Op -> card -> median over the points of log(time / median time of the cards that have it)."""
    times: dict[tuple[str, str], dict[str, list[float]]] = {}
    for reading in readings:
        of_point = times.setdefault((reading.op, reading.point), {})
        of_point.setdefault(reading.card, []).append(math.log(reading.seconds))
    by_op: dict[str, dict[str, list[float]]] = {}
    for (op, _), of_point in times.items():
        if len(of_point) >= FEWEST:
            by_card = {card: median(logs) for card, logs in of_point.items()}
            centre = median(by_card.values())
            for card, value in by_card.items():
                by_op.setdefault(op, {}).setdefault(card, []).append(value - centre)
    return {
        op: {card: median(values) for card, values in of_op.items()} for op, of_op in by_op.items()
    }


def healthy_values(values: Array) -> Array:
    """The values that do not stand out: two at least, of two or more.

    A value within 2 % of the median never stands out. Without this floor a MAD of 0, or that of
    three values, would leave out cards that differ by noise.

    values: one per card, differences of natural logarithms of time.
    """
    distance = np.abs(values - np.median(values))
    return values[distance <= max(_KEPT * scatter(values), math.log1p(MATTERS))]


def limit_from_others(others: Array, tests: int) -> float:
    """What one more healthy card does not exceed, in one of `tests` tests, by the other cards."""
    healthy = healthy_values(others)
    spread = float(np.std(healthy, ddof=1)) * math.sqrt(1 + 1 / len(healthy))
    quantile = float(stdtrit(len(healthy) - 1, 1 - FALSE_ALARMS / tests))
    return max(math.log1p(MATTERS), quantile * spread)


def cause_of(card: str, slow: Sequence[Deviation], readings: Sequence[Reading]) -> str:
    """What the state of a slow card says: the names are those of docs/run.md."""
    ops = {one.op for one in slow}
    of_ops = [reading for reading in readings if reading.op in ops]
    most = max(one.deviation for one in slow)
    clocks = median_by_card(of_ops, "clock_hz")
    clock = _difference({name: math.log(hz) for name, hz in clocks.items() if hz > 0}, card)
    if clock >= _EXPLAINS * most:
        hotter = -_difference(median_by_card(of_ops, "temperature_c"), card)
        thermal = max((_oftener(of_ops, card, r) for r in _reasons(of_ops, "thermal")), default=0.0)
        if thermal > _OFTENER or (thermal > 0 and hotter < -_HOTTER_C):
            return "temperature"
        if _oftener(of_ops, card, "power_cap") > _OFTENER:
            return "power cap"
        others = [r for r in _reasons(of_ops, "") if _oftener(of_ops, card, r) > _OFTENER]
        return f"throttle reason {others[0]}" if others else "clock"
    if all(BY_NAME[op].received_bytes or op == "probe_link" for op in ops):
        return "link"
    if all(BY_NAME[op].computes != "product" for op in ops) and "probe_copy" in ops:
        return "memory"
    return "unexplained"


def _reasons(readings: Sequence[Reading], part: str) -> list[str]:
    return sorted({name for reading in readings for name in reading.limited if part in name})


def compare_with_publication(
    card: Card, published: Sequence[Reading], threshold: float
) -> CardVerdict:
    """The verdict on one card, by the points that one published card of its kind has too.

    One card says nothing of how much healthy cards differ: hence the threshold, beyond which the
    interval has to lie as well (`TimeRatio.is_slower`). That is the interval of the middle point:
    most ops have fewer than the six points that the report's interval of a median needs.

    An op whose interval is wider than the threshold says nothing: a card could be slower by twice
    that. Raises HealthError if no op can be compared and no point fails.
    """
    by_point = {reading.point: reading for reading in published}
    pairs = [
        (reading, by_point[reading.point]) for reading in card.readings if reading.point in by_point
    ]
    deviations = []
    why_not = {reading.op: "not in the publication" for reading in card.readings}
    for op in dict.fromkeys(reading.op for reading, _ in pairs):
        of_op = [pair for pair in pairs if pair[0].op == op]
        ratios = [math.log(own.seconds / other.seconds) for own, other in of_op]
        widths = [math.hypot(own.half_width, other.half_width) for own, other in of_op]
        if median(widths) > threshold:
            why_not[op] = f"its 95 % interval is wider than the threshold of {threshold:.1%}"
            continue
        limit = math.log1p(threshold) + median(widths)
        one = Deviation(card=card.name, op=op, deviation=median(ratios), limit=limit)
        deviations.append(one)
    if not deviations and not card.failures:
        reasons = "".join(f"; {op}: {why}" for op, why in why_not.items())
        raise HealthError(
            f"{card.name}: no point of config/health.yaml can be compared with the publication"
            f"{reasons}; measure {FEWEST} cards"
        )
    readings = [reading for pair in pairs for reading in pair]
    return _verdict(card, deviations, readings, why_not)


def _oftener(readings: Sequence[Reading], card: str, reason: str) -> float:
    """By how much more of its time a card names a throttle reason than the median card does."""
    shares: dict[str, list[float]] = {}
    for reading in readings:
        shares.setdefault(reading.card, []).append(reading.limited.get(reason, 0.0))
    return -_difference({name: fmean(values) for name, values in shares.items()}, card)


def _difference(values: dict[str, float], card: str) -> float:
    """The median of the other cards minus the value of a card; 0 where it has none."""
    others = [value for name, value in values.items() if name != card]
    return median(others) - values[card] if card in values and others else 0.0


def slowdown_of_jobs(verdicts: Sequence[CardVerdict], op: str, size: int) -> float:
    """By how much a synchronous job on `size` random cards is slower than its median card.

    A job waits for its slowest card: the mean of the largest deviation over all choices of cards.
    """
    values = sorted(d.deviation for v in verdicts for d in v.deviations if d.op == op)
    ways = math.comb(len(values), size)
    chosen = ((math.comb(place, size - 1), value) for place, value in enumerate(values))
    return sum(count * math.expm1(value) for count, value in chosen) / ways
