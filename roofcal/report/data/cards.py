"""Cards of one model beside each other: the times of each over those published, by kind of work.

Compared are points of one identity that both cards timed by graph replay on random data, with the
same software. Points of our kernels whose code differs are told apart: there not only the card may
have made a difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd

from roofcal.core.environments import version_key
from roofcal.core.paths import CARD_NAME
from roofcal.core.records import Session
from roofcal.core.visits.intervals import HOLDS
from roofcal.ops import BY_NAME, FOLDERS
from roofcal.points.columns import INTERVAL_HOLDS, OUR_PROVIDERS
from roofcal.points.reader import Points
from roofcal.points.run import Run, load_run
from roofcal.report.data.op_pages import headline_op, title_of
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.charts import in_order
from roofcal.report.kit.numbers import count_of, percent

COLUMNS: Final = ("card", "kind", "code", "points", "ratio", "p5", "p95")
SAME, OTHER = "same", "other"  # code of a kernel of ours; that of a library is the same
_FEWEST: Final = 3  # points of a kind of work: a study has three launches by graph replay
_PRODUCTS: Final = "Products, "  # of the headline op; the recipe follows
_POINT: Final = ["card", "code_hash", "median_s"]


def publication_for(run: Run, peers: Sequence[Run]) -> Run | None:
    """The publication to compare a run with: of its environment, else the device's last."""
    own = run.environment
    same_device = [
        peer
        for peer in peers
        if peer.origin == "published"
        and peer.folder != run.folder
        and peer.environment.device == own.device
    ]
    exact = [p for p in same_device if p.environment.environment_id == own.environment_id]
    ordered = sorted(same_device, key=lambda p: version_key(p.environment.environment_id))
    return next(iter([*exact, *reversed(ordered)]), None)


def replayed_points(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a time by graph replay on random data, without repetitions of sentinels."""
    rows = ok_rows(frame)
    is_replayed = (rows["method"] == "graph") & (rows["distribution"] == "normal")
    return rows[is_replayed & (rows["repeat"] == 0)]


def ratios_of_cards(
    run: Run,
    frames: Mapping[str, pd.DataFrame],
    sessions: Mapping[str, Sequence[Session]],
    peers: Sequence[Run],
) -> pd.DataFrame:
    """The times of every further card over those published: one row per card and kind of work.

    Further cards are those beside the publication and, in the report of a run, its own. Points that
    a card measured for the publication as well are left out. cards.csv.md of the section describes
    the columns.

    run: a publication, or a run of this machine with its publication among the `peers`. Raises
    RecordsError for a bad file.
    """
    own = {op: Points(frames[op], list(sessions[op])) for op in frames}
    publication, cards = run, []
    if run.origin == "measured":
        candidate = publication_for(run, peers)
        if candidate is None or candidate.environment != run.environment:
            return pd.DataFrame(columns=list(COLUMNS))
        publication, cards = candidate, [own]
        own = {op: publication.points(op) for op in publication.ops}
    others = [load_run(files.folder) for files in publication.files.cards().values()]
    cards += [{op: other.points(op) for op in other.ops} for other in others]
    parts = [
        _pairs(card[op], own[op], op) for card in cards for op in card if op in own and len(own[op])
    ]
    pairs = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    rows = []
    for keys, group in pairs.groupby(list(COLUMNS[:3]), sort=False) if len(pairs) else ():
        low, middle, high = np.quantile(group["ratio"], [0.05, 0.5, 0.95])
        rows.append((*keys, len(group), middle, low, high))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    kinds = [kind for op in FOLDERS for kind in _kinds_of(op, BY_NAME[op].recipes)]
    return in_order(table, kind=kinds, code=[SAME, OTHER]).reset_index(drop=True)


def _kinds_of(op: str, recipes: Iterable[str]) -> list[str]:
    """The kind of work of points with these recipes: products differ by recipe, most by clock."""
    title = title_of(op)
    return [f"{_PRODUCTS}{recipe}" if op == headline_op() else title for recipe in recipes]


def _pairs(points: Points, published: Points, op: str) -> pd.DataFrame:
    """The points of an op that a card and another one of the publication timed: their ratio."""
    both = _on_one_card(points).join(
        _on_one_card(published)[_POINT].add_suffix("_published"), how="inner"
    )
    both = both[both["card"] != both["card_published"]]
    is_ours = both["provider"].str.startswith(OUR_PROVIDERS)
    is_other = is_ours & (both["code_hash"] != both["code_hash_published"])
    return both.assign(
        kind=_kinds_of(BY_NAME[op].folder, both["recipe"]),
        code=np.where(is_other, OTHER, SAME),
        ratio=both["median_s"] / both["median_s_published"],
    )


def _on_one_card(points: Points) -> pd.DataFrame:
    """Points that one known card alone timed, with its name and the code that measured them."""
    named = {s.session_id: s.cards[0][:CARD_NAME] for s in points.sessions if len(s.cards) == 1}
    codes = {s.session_id: s.code_hash for s in points.sessions}
    rows = replayed_points(points.table)
    rows = rows.assign(card=rows["session_id"].map(named), code_hash=rows["session_id"].map(codes))
    is_one = rows["card"].notna() & (rows[INTERVAL_HOLDS] != HOLDS["cards"])
    return rows[is_one].set_index("point_id")


def counted_kinds(cards: pd.DataFrame) -> pd.DataFrame:
    """The rows of `ratios_of_cards` that figure and sentence count: of enough points."""
    return cards[cards["points"] >= _FEWEST]


def cards_sentence(cards: pd.DataFrame) -> str:
    """How far further cards of the model are from the published one, by `ratios_of_cards`."""
    rows = counted_kinds(cards[cards["code"] == SAME])
    if rows.empty:
        return (
            "No further card of this model measured the same points with the same driver and "
            "libraries."
        )
    products = rows[rows["kind"].str.startswith(_PRODUCTS)]
    of_products = f" (products {_range_text(products['ratio'])})" if len(products) else ""
    furthest = rows.loc[np.log(rows["ratio"]).abs().idxmax()]
    return (
        f"{count_of(rows['card'].nunique(), 'further card')} of this model measured the same "
        f"points with the same driver and libraries. By kind of work, their median times are "
        f"{_range_text(rows['ratio'])} off the published ones{of_products}; the furthest is "
        f"{furthest['kind']} on {furthest['card']}, "
        f"{percent(float(furthest['ratio']) - 1, signed=True)} over "
        f"{count_of(int(furthest['points']), 'point')}. Single points lie further apart: in a "
        f"typical kind, nine of ten at {_range_text(rows[['p5', 'p95']].median())}."
    )


def own_card_sentence(cards: pd.DataFrame, own: Iterable[str]) -> str:
    """How far the cards of a run are from the published one, and how far others of the model are.

    own: their uuids. Empty where they timed too little of what was published.
    """
    rows = counted_kinds(cards[cards["code"] == SAME])
    is_own = rows["card"].isin([card[:CARD_NAME] for card in own])
    mine, others = rows[is_own], rows[~is_own]
    if mine.empty:
        return ""
    median = percent(float(mine["ratio"].median()) - 1, signed=True)
    text = f"Median over kinds of work: {median} against the published time here"
    if len(others):
        of_others = others.groupby("card")["ratio"].median()
        further = count_of(others["card"].nunique(), "further card")
        text += f", {_range_text(of_others)} on {further} of this model"
    return f"{text}."


def _range_text(ratios: "pd.Series[float]") -> str:
    low, high = (percent(float(end) - 1, signed=True) for end in (ratios.min(), ratios.max()))
    return low if low == high else f"{low} to {high}"
