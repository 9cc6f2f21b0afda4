"""Cards of one model beside each other: by points that they both timed, and by their sentinels."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.cards import OTHER, cards_sentence, counted_kinds
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.panel_factors import card_spreads, panel_factors
from roofcal.report.kit import charts
from roofcal.report.kit import columns as col
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "cards.csv"
_CARD: Final = col.code("card", "card")
_KIND: Final = col.text("kind", "kind of work")
CARDS: Final = (
    _KIND,
    _CARD,
    col.text("code", "code", "other: our kernels, which another commit measured on one of the two"),
    *col.named("points"),
    col.ratio("ratio", "time over published", "median over points", digits=3),
    col.ratio("p5", "5th percentile", digits=3),
    col.ratio("p95", "95th", digits=3),
)
PANEL_FILE: Final = "panel.csv"
PANEL: Final = (
    _KIND,
    _CARD,
    col.code("session_id", "session", about="empty: the card, over its sessions"),
    col.ratio("factor", "time over the mean card", digits=3),
    col.ratio("low", "95 % from", digits=3),
    col.ratio("high", "to", digits=3),
    *col.named("interval_holds", "sentinels"),
)
_COLOURS: Final = (charts.BLUE, charts.VERMILLION, charts.GREEN, *charts.SPARE_COLOURS[:4])
_TICKS: Final = (0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25)
_ROW_PX, _CARD_PX = 16, 10  # height of a kind of work, and of each card in it


def show(analysis: Analysis) -> Iterator[Item]:
    """How much longer work takes on further cards, then sessions and cards by their sentinels."""
    cards = analysis.cards
    if len(cards):
        if analysis.run.origin == "measured":  # for a publication it is the answer
            yield Prose(text=cards_sentence(cards))
        yield draw_cards(cards)
        yield CsvTable(FILE, cards)
        yield Table("cards", "Times of further cards over those published", cards, CARDS, FILE)
    factors = panel_factors(analysis.panel)
    yield Prose(text=panel_sentence(analysis))
    if len(factors):
        yield CsvTable(PANEL_FILE, factors)
    name = "Sessions and cards by their sentinels"
    yield Table("cards-panel", name, factors, PANEL, PANEL_FILE)


def draw_cards(cards: pd.DataFrame) -> Picture | None:
    """A dot per card and kind of work with the 5th to 95th percentile; None without enough points.

    cards: see roofcal.report.data.cards.ratios_of_cards.
    """
    rows = counted_kinds(cards).reset_index(drop=True)
    if rows.empty:
        return None
    names = list(dict.fromkeys(rows["card"]))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
    height = 40 + rows["kind"].nunique() * (_ROW_PX + _CARD_PX * len(names))
    is_open = (rows["code"] == OTHER).astype(int)
    points = rows.assign(
        colour=rows["card"].map(colours),
        marker="o",
        is_open=is_open,
        place=2 * rows["card"].map(names.index) + is_open,
    )
    other = charts.LegendEntry(
        "code", OTHER, charts.MUTED, "o", label="other code of our kernels", is_open=True
    )
    return Picture(
        key="cards",
        op=headline_op(),
        source=FILE,
        x=charts.Axis("ratio", "time over published", "ratio", ticks=_TICKS),
        y=charts.Axis("kind", "", "names", order=list(dict.fromkeys(rows["kind"])), offset="place"),
        layers=[
            charts.Layer("upright", table="equal"),
            charts.Layer("interval", low="p5", high="p95"),
            charts.Layer("dots", size=42),
        ],
        tables={"points": points, "equal": charts.line_at(1.0, "ratio", charts.MUTED)},
        panels=[charts.Panel(height=height)],
        tips=(
            *charts.text_tips(kind="work", card="card", code="code"),
            charts.Tip("ratio", "time over published", "ratio", "", "p5", "p95"),
            charts.Tip("points", "points", "count"),
        ),
        legend=[*charts.swatches("card", colours, "o"), *([other] if is_open.any() else [])],
        alt="Times of further cards of this model over those of the published one, by work.",
        facts=f"{count_of(len(names), 'further card')}, "
        f"{count_of(int(rows['points'].sum()), 'point')}.",
    )


def panel_sentence(analysis: Analysis) -> str:
    """What the panel of sentinels says of sessions and cards."""
    if not analysis.panel:
        cards = {card for session in analysis.all_sessions for card in session.cards}
        return (
            "No two sessions share a sentinel, so how sessions and cards of this run differ is "
            f"unknown ({count_of(len(analysis.all_sessions), 'session')}, "
            f"{count_of(len(cards), 'card')})."
        )
    spreads = [
        f"{percent(one.spread)} ({percent(one.low)} to {percent(one.high)}) for {one.kind}, "
        f"{one.cards} cards"
        for one in card_spreads(analysis.panel)
    ]
    between = f" Standard deviation between cards: {'; '.join(spreads)}." if spreads else ""
    return (
        "Sentinels, points that several sessions measured, show by kind of work how much longer "
        "it takes in a session and on a card than on the mean card. Tables of points have the "
        f"time as measured, this factor of its session, and the time over the factor.{between}"
    )


SECTION = Section("Cards of this model", "healthy", show, lead=("cards",))
