"""Factors of sessions and cards: known ones are found, and their intervals hold them."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.report.data import panel_factors as panel

Reading = tuple[str, str, str, str, float]
Readings = list[Reading]


def reading(
    session: str, seconds: float, *, card: str = "", sentinel: str = "one", kind: str = "memory"
) -> Reading:
    return kind, sentinel, session, card or session, seconds


def table(readings: Readings) -> pd.DataFrame:
    return pd.DataFrame(readings, columns=list(panel.READINGS))


def rows_of(fits: list[panel.PanelFit]) -> list[Any]:
    return list(panel.panel_factors(fits).itertuples(index=False))


def panel_factors(readings: Readings) -> list[Any]:
    return rows_of(panel.panel_fits(table(readings)))


def by_session(readings: Readings) -> dict[str, Any]:
    return {row.session_id: row for row in panel_factors(readings) if row.session_id}


def by_card(readings: Readings) -> dict[str, Any]:
    return {row.card: row for row in panel_factors(readings) if not row.session_id}


def test_a_card_that_is_4_percent_slower_at_every_sentinel_has_that_factor() -> None:
    readings = [
        reading(session, seconds * factor, sentinel=sentinel)
        for session, factor in (("a", 1.0), ("b", 1.04))
        for sentinel, seconds in (("one", 1.0), ("two", 5.0))
    ]
    cards = by_card(readings)
    assert cards["b"].factor / cards["a"].factor == pytest.approx(1.04)
    assert cards["b"].factor * cards["a"].factor == pytest.approx(1.0)
    assert cards["b"].interval_holds == "this session"
    (spread,) = panel.card_spreads(panel.panel_fits(table(readings)))
    assert spread.spread == pytest.approx(math.log(1.04) / 2**0.5)


def test_sessions_without_a_sentinel_in_common_have_no_factor() -> None:
    assert panel_factors([reading("a", 1.0), reading("b", 1.0, sentinel="two")]) == []
    assert panel_factors([reading("a", 1.0), reading("a", 1.1)]) == []


def test_a_card_of_several_sessions_says_so_and_sessions_of_one_card_have_no_card_factor() -> None:
    readings = [
        reading(session, seconds, card=card)
        for session, card, seconds in (("a", "x", 1.0), ("b", "x", 1.01), ("c", "y", 1.03))
        for _ in range(3)
    ]
    assert by_card(readings)["x"].interval_holds == "another session"
    assert by_card(readings)["x"].factor < by_card(readings)["y"].factor
    one_card = [reading(session, 1.0, card="x") for session in "ab"]
    assert by_card(one_card) == {}


def made_up_panel(
    draw: np.random.Generator, cards: int, sessions: int, sentinels: int = 4
) -> tuple[Readings, dict[str, float], dict[str, float]]:
    """Readings, logarithms of the true factors of sessions, and of cards.

    Scatter as the published sentinels of an H200 have it: cards 2 %, sessions of a card 0.5 %, a
    sentinel in a session 0.4 %, its repetitions 2 %.
    """
    of_card = {f"card {i}": float(draw.normal(0, 0.02)) for i in range(cards)}
    of_session, readings = {}, []
    for card, factor in of_card.items():
        for number in range(sessions):
            name = f"{card}, {number}"
            of_session[name] = factor + float(draw.normal(0, 0.005))
            for sentinel in range(sentinels):
                log = of_session[name] + float(draw.normal(0, 0.004)) + sentinel
                readings += [
                    reading(
                        name,
                        math.exp(log + float(draw.normal(0, 0.02))),
                        card=card,
                        sentinel=str(sentinel),
                    )
                    for _ in range(3)
                ]
    return readings, of_session, of_card


@pytest.mark.parametrize(("cards", "sessions"), [(2, 1), (4, 1), (3, 2)])
def test_intervals_hold_the_true_factors(cards: int, sessions: int) -> None:
    draw = np.random.default_rng(1)
    held_sessions, held_cards, held_spreads = [], [], []
    for _ in range(120):
        readings, of_session, of_card = made_up_panel(draw, cards, sessions)
        centre = float(np.mean(list(of_session.values())))
        fits = panel.panel_fits(table(readings))
        for row in rows_of(fits):
            if row.session_id:
                truth = math.exp(of_session[row.session_id] - centre)
                held_sessions.append(row.low <= truth <= row.high)
            else:
                truth = math.exp(of_card[row.card] - float(np.mean(list(of_card.values()))))
                held_cards.append(row.low <= truth <= row.high)
        held_spreads += [one.low <= 0.02 <= one.high for one in panel.card_spreads(fits)]
    assert np.mean(held_sessions) >= 0.93
    assert np.mean(held_spreads) >= 0.9
    if sessions > 1:  # else nothing shows how sessions of a card differ, and `holds` says so
        assert np.mean(held_cards) >= 0.93


def scattered(
    draw: np.random.Generator, sentinels_of: dict[str, list[str]], factors: dict[str, float]
) -> Readings:
    """Two repetitions of each sentinel: it scatters by 1 % between sessions, they by 0.2 %."""
    readings = []
    for session, sentinels in sentinels_of.items():
        for sentinel in sentinels:
            log = factors[session] + draw.normal(0, 0.01)
            readings += [
                reading(session, math.exp(log + draw.normal(0, 0.002)), sentinel=sentinel)
                for _ in range(2)
            ]
    return readings


@pytest.mark.parametrize("shared", [1, 3])
def test_sentinels_of_one_session_alone_change_no_factor_and_no_interval(shared: int) -> None:
    common = [f"common {i}" for i in range(shared)]
    sentinels_of = {s: common + [f"{s} {i}" for i in range(10)] for s in "ab"}
    readings = scattered(np.random.default_rng(3), sentinels_of, {"a": 0.0, "b": 0.02})
    factors = panel_factors(readings)
    assert factors == panel_factors([one for one in readings if one[1] in common])
    assert {factor.sentinels for factor in factors} == {shared}


def chain(sessions: int, sentinels: int) -> dict[str, list[str]]:
    """Sessions that each share some sentinels with the next one, and with no other."""
    return {
        f"session {i}": [f"{link}, {number}" for link in (i, i + 1) for number in range(sentinels)]
        for i in range(sessions)
    }


def test_intervals_of_a_chain_hold_and_are_wider_at_its_ends() -> None:
    draw = np.random.default_rng(5)
    sentinels_of = chain(12, 2)
    truth = {session: 0.01 * i for i, session in enumerate(sentinels_of)}
    held = []
    for _ in range(40):
        factors = by_session(scattered(draw, sentinels_of, truth))
        for session, factor in factors.items():
            log = truth[session] - 0.055
            held.append(math.log(factor.low) <= log <= math.log(factor.high))
        halves = [math.log(factor.high / factor.factor) for factor in factors.values()]
        assert min(halves[0], halves[-1]) > 1.2 * max(halves[5:7])
    assert np.mean(held) >= 0.93
