"""The slow card of a fleet is found and named with its cause, and healthy ones are not."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Visit
from roofcal.health.comparison import (
    COLUMNS,
    Cards,
    CardVerdict,
    Deviation,
    HealthError,
    compare_cards,
    compare_with_publication,
    read_card,
)
from roofcal.health.page import JudgedCards, heat_map, slowdown_of_jobs, summary_sentence
from tests.roofcal.made_up_records import readings, timed
from tests.roofcal.measure.runs import environment, point

POINTS = {"probe_copy": (1e-4, 3e-4), "gemm": (2e-4, 1e-3, 4e-3), "cast": (5e-5, 2e-4)}
BETWEEN, WITHIN = 0.004, 0.002  # spread of healthy cards, and of one card's times


STATE = {"limited": {"power_cap": 0.2}, "clock_hz": 1.7e9, "power_w": 600.0, "temperature_c": 50.0}


def table(rows: Sequence[Mapping[str, Any]], **fields: Any) -> pd.DataFrame:
    """Points of one card as read_card has them."""
    fields = {"status": "ok", "reason": None, "limited": {}} | fields
    return pd.DataFrame([{**fields, **row} for row in rows], columns=COLUMNS)


def fleet(seed: int, slow: Mapping[str, float], cards: int = 8, **state: Any) -> Cards:
    """A fleet; card-3 is slower by `slow` on some ops, and in a state of its own."""
    chance = random.Random(seed)
    made = {}
    for number in range(cards):
        own = number == 3
        rows = []
        for op, times in POINTS.items():
            card = chance.gauss(0, BETWEEN) + (slow.get(op, 0.0) if own else 0.0)
            for place, seconds in enumerate(times):
                seconds *= np.exp(card + chance.gauss(0, WITHIN))  # noqa: PLW2901
                rows.append({"op": op, "point": f"{op} {place}", "seconds": seconds})
        fields = STATE | {"half_width": WITHIN} | (state if own else {})
        made[f"card-{number}"] = table(rows, **fields)
    return made


def one_op(op: str, seconds: float, points: str = "abc", half_width: float = 0.001) -> pd.DataFrame:
    """A card with the same time on every point of one op."""
    times = {"op": op, "seconds": seconds, "half_width": half_width}
    return table([times | {"point": point} for point in points])


FAULT = {"point": "gemm cublaslt bf16 m=8", "status": "out_of_memory", "reason": "2 GiB free"}
FAILED = table([FAULT | {"op": "gemm", "reason": "2 GiB free\ntrace"}])
NONE = table([])


def text_of(verdicts: Sequence[CardVerdict]) -> str:
    return JudgedCards(verdicts).text()


def slow_cards(cards: Cards) -> list[tuple[str, str | None]]:
    return [(v.card, v.cause) for v in compare_cards(cards) if v.cause is not None]


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 40), marks=pytest.mark.exhaustive)]
)
def test_one_card_of_eight_that_is_5_percent_slower_is_found_and_no_other(seeds: range) -> None:
    for seed in seeds:
        slowed = fleet(seed, dict.fromkeys(POINTS, 0.05))
        assert slow_cards(slowed) == [("card-3", "unexplained")]
        deviations = [one.deviation for one in compare_cards(slowed)[0].deviations]
        assert deviations == pytest.approx([0.05] * len(POINTS), abs=0.02)
        assert slow_cards(fleet(seed, {})) == []


@pytest.mark.parametrize(
    ("slow", "state", "cause"),
    [
        ({"gemm": 0.1, "cast": 0.1}, {"clock_hz": 1.54e9}, "clock"),
        ({"gemm": 0.1}, {"clock_hz": 1.54e9, "limited": {"power_cap": 0.9}}, "power cap"),
        (
            {"gemm": 0.1},
            {"clock_hz": 1.54e9, "temperature_c": 85.0, "limited": {"hw_thermal_slowdown": 0.5}},
            "temperature",
        ),
        (
            {"gemm": 0.1},
            {"clock_hz": 1.54e9, "limited": {"hw_power_brake": 0.9}},
            "throttle reason hw_power_brake",
        ),
        ({"probe_copy": 0.1, "cast": 0.08}, {}, "memory"),
        ({"gemm": 0.1}, {}, "unexplained"),
    ],
)
def test_the_cause_follows_from_the_state_of_the_card(
    slow: dict[str, float], state: dict[str, Any], cause: str
) -> None:
    assert slow_cards(fleet(1, slow, **state)) == [("card-3", cause)]


@pytest.mark.parametrize(
    ("times", "slow"),
    [((1, 1.001, 1.5), {"2"}), ((1, 1, 1, 1, 1, 1.5), {"5"}), ((1, 1.001, 1.5, 1.5), {"2", "3"})],
)
def test_a_slow_card_does_not_widen_its_own_limit(times: tuple[float, ...], slow: set[str]) -> None:
    cards = {str(number): one_op("gemm", factor) for number, factor in enumerate(times)}
    assert {card for card, _ in slow_cards(cards)} == slow


def test_a_card_that_fails_a_point_is_named_and_hides_no_slow_card() -> None:
    cards = dict(fleet(1, {"gemm": 0.5}))
    kept = cards["card-7"][cards["card-7"]["op"] != "gemm"]
    cards["card-7"] = pd.concat([kept, FAILED])
    verdicts = compare_cards(cards)
    assert [v.card for v in verdicts if not v.is_healthy] == ["card-7", "card-3"]
    assert {one.op for one in verdicts[0].deviations} == {"probe_copy", "cast"}
    assert slow_cards(cards) == [("card-3", "unexplained")]
    text = text_of(verdicts)
    assert "card-7 fails gemm cublaslt bf16 m=8: out_of_memory (2 GiB free)" in text
    gemm_costs = next(line for line in text.splitlines() if "loses, gemm" in line)
    assert gemm_costs.endswith("on 7")  # seven cards have it


def test_each_point_is_compared_over_the_cards_that_have_it() -> None:
    uneven = {
        name: points[points["point"] != f"gemm {number % 3}"]
        for number, (name, points) in enumerate(fleet(1, {"gemm": 0.5}).items())
    }
    assert slow_cards(uneven) == [("card-3", "unexplained")]


def test_a_card_without_a_common_point_has_a_verdict_and_stops_no_other() -> None:
    cards = {**fleet(1, {"gemm": 0.5}), "other": one_op("gemm", 1.0), "none": NONE}
    verdicts = compare_cards(cards)
    unhealthy = [v.card for v in verdicts if not v.is_healthy]
    assert unhealthy == ["other", "none", "card-3"]
    assert text_of(verdicts).count("no point in common") == 2
    alone = text_of([v for v in verdicts if v.card == "none"]).splitlines()
    assert (alone[0], alone[3].split()) == (
        "none could not be compared.", ["none", "no", "point", "in", "common"]
    )  # fmt: skip
    alone = text_of([v for v in verdicts if v.card == "card-3"]).splitlines()
    assert alone[0].startswith("card-3 is slower than healthy cards. gemm takes 6")
    assert alone[2].startswith("unexplained: measure it again")
    healthy = text_of([v for v in verdicts if v.card == "card-1"]).splitlines()
    assert healthy[:2] == ["card-1 is not slower than healthy cards.", ""]
    cards = {card: one_op("gemm", 1.0, points=card) for card in "xyz"}
    with pytest.raises(HealthError, match="x, y, z: no point was measured on 3"):
        compare_cards(cards)


PUBLISHED = one_op("gemm", 1.0)


def test_a_card_that_fails_a_published_point_is_not_healthy() -> None:
    card = pd.concat([one_op("gemm", 1.0), FAILED])
    verdict = compare_with_publication("own", card, PUBLISHED, 0.05)
    assert (verdict.cause, verdict.failures, verdict.is_healthy) == (None, [FAULT], False)
    assert not compare_with_publication("own", FAILED, PUBLISHED, 0.05).is_healthy
    with pytest.raises(HealthError, match="own: no point"):
        compare_with_publication("own", NONE, PUBLISHED, 0.05)


def test_a_threshold_is_a_fraction_of_the_published_time() -> None:
    """The intervals of these times say 0.14 % of their ratio."""
    for seconds, is_slower in ((1.050, False), (1.052, True)):
        verdict = compare_with_publication("own", one_op("gemm", seconds), PUBLISHED, 0.05)
        assert [one.is_slower for one in verdict.deviations] == [is_slower]


@pytest.mark.parametrize("times", [(1, 1.0001, 1.12), (1, 1, 1, 1.12, 1.12)])
def test_the_limit_that_is_shown_is_the_one_that_decides(times: tuple[float, ...]) -> None:
    """The median of all limits was shown, which the slow cards widen for the others alone."""
    cards = {f"card-{number}": one_op("gemm", factor) for number, factor in enumerate(times)}
    _, *lines = text_of(compare_cards(cards)).split("\n\n")[1].splitlines()
    rows = [(lines[i].split()[1], lines[i + 1].split()[-1]) for i in range(0, 2 * len(times), 2)]
    for cell, limit in rows:
        assert cell.endswith("!") == (float(cell.rstrip("%!")) > float(limit.rstrip("%")))


def test_cards_that_were_not_compared_are_not_counted_as_healthy() -> None:
    cards = {str(number): one_op("gemm", 1.0) for number in range(3)}
    failing = compare_cards(dict.fromkeys("abc", FAILED))
    assert {(verdict.word, verdict.is_healthy) for verdict in failing} == {("fails a point", False)}
    assert "0 of 0 cards are slower" in text_of(failing)
    verdicts = compare_cards({**cards, "node/7_broken": FAILED, "x": one_op("cast", 1.0)})
    says = "0 of 3 cards are slower than the others; 1 failed a point; 2 could not be compared"
    assert says in text_of(verdicts)
    assert summary_sentence(verdicts) == f"{says}."
    assert "x: cast is not compared: no point of it is on 3 cards" in text_of(verdicts)
    ((_, cells),) = [row for row in heat_map(verdicts)["rows"] if row[0] == "node"]
    assert {"word": "fails a point"} in cells


def test_ops_that_the_publication_cannot_judge_are_named() -> None:
    own = fleet(1, {}, cards=1)["card-0"]
    unsure = own.assign(half_width=own["half_width"].where(own["op"] != "cast", 0.5))
    verdict = compare_with_publication("own", unsure, own[own["op"] != "gemm"], 0.05)
    assert [one.op for one in verdict.deviations] == ["probe_copy"]
    assert verdict.uncompared == {
        "gemm": "not in the publication",
        "cast": (
            "its times scatter too much (95 % interval) to tell 5.0%; stop what runs beside it "
            "and measure again"
        ),
    }


@pytest.mark.parametrize("half_width", [0.06, math.inf])
def test_an_interval_that_holds_any_slowness_is_no_good_verdict(half_width: float) -> None:
    """Fewer than six samples have an infinite interval, and nothing was slower than that."""
    unsure = one_op("gemm", 2.0, half_width=half_width)
    with pytest.raises(HealthError, match=r"own: no point .* gemm: its times scatter too much"):
        compare_with_publication("own", unsure, PUBLISHED, 0.05)


def test_a_job_on_all_cards_waits_for_the_slowest_and_on_one_for_the_mean() -> None:
    verdicts = compare_cards(fleet(2, dict.fromkeys(POINTS, 0.05)))
    deviations = [d.deviation for v in verdicts for d in v.deviations if d.op == "gemm"]
    assert slowdown_of_jobs(deviations, 8) == pytest.approx(np.expm1(max(deviations)))
    assert slowdown_of_jobs(deviations, 1) == pytest.approx(np.mean(np.expm1(deviations)))


def test_the_map_shows_the_slower_of_two_cards_of_one_slot() -> None:
    verdicts = [
        CardVerdict(
            card=card,
            deviations=(Deviation(card=card, op="gemm", deviation=slower, limit=0.02),),
            cause=None,
        )
        for card, slower in (("node/0_old", 0.2), ("node/0_new", 0.0))
    ]
    for ordered in (verdicts, verdicts[::-1]):
        ((_, (cell,)),) = heat_map(ordered)["rows"]
        assert cell["text"] == "+22.1\u00a0%"


def test_what_no_test_could_find_is_no_silent_good_verdict() -> None:
    cards = {str(n): one_op("gemm", factor) for n, factor in enumerate((1, 1.002, 1.12))}
    said = "0 of 3 cards are slower than the others; 1 beyond 2% yet within the limit"
    assert said in text_of(compare_cards(cards))


POINT = replace(point("fp32"), sweeps=())


def write_card(folder: Path, **changes: object) -> Path:
    row = replace(timed(POINT, environment(), *changes.pop("samples")), **changes)  # type: ignore[misc, arg-type]
    write_records(folder / "environment.jsonl", [environment()])
    write_records(folder / "plan/gemm.jsonl", [POINT])
    write_records(folder / "measurements/gemm.jsonl", [row])
    return folder


def test_visits_that_disagree_widen_the_interval(tmp_path: Path) -> None:
    """Pooled, the samples of two visits would have their median in the gap between them."""
    visits = tuple(Visit(first_sample=first, warmup_samples=0, session_id="s") for first in (0, 20))
    folder = write_card(tmp_path, samples=(1.0,) * 20 + (1.21,) * 20, visits=visits)
    reading = read_card(folder).iloc[0]
    assert reading.seconds == pytest.approx(1.1)
    assert reading.half_width > 0.5


def test_readings_from_before_the_clock_settled_do_not_count(tmp_path: Path) -> None:
    values = {"power_w": (100.0, 700.0), "temperature_c": (40.0, 60.0)}
    reasons = ((), ("power_cap",))
    telemetry = readings((1, 8), sm_clock_hz=(1.9e9, 1.4e9), throttle_reasons=reasons, **values)
    folder = write_card(tmp_path, samples=(1.0,) * 12, warmup_samples=4, telemetry=telemetry)
    reading = read_card(folder).iloc[0]
    assert (reading.clock_hz, reading.power_w, reading.temperature_c) == (1.4e9, 700.0, 60.0)
    assert reading.limited == {"power_cap": 1.0}
