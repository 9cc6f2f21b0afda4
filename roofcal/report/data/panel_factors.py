"""How sessions and cards differ, and cards of one model, by sentinels that they share.

The logarithm of the time of a sentinel in a session is what it takes, plus what the session (and
its card) adds to all sentinels of that kind of work, plus what only this sentinel did in it. The
first two come from least squares over the sentinels that sessions share; the third is the error.
A sentinel of one session alone says nothing of how sessions differ, and is left out. Factors are
around the mean of the cards, so they multiply to 1 over cards. Sessions that share no sentinel,
also not by way of others, cannot be compared and are in no group.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core import portable_math
from roofcal.core.records import Session
from roofcal.core.times import Array
from roofcal.core.visits.differences import CardSpread, spread_between_cards
from roofcal.core.visits.intervals import HOLDS, cards_by_session, quantile
from roofcal.fitting.batched_least_squares import cholesky_solve
from roofcal.ops import BY_NAME
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.report.data.quality import by_sentinel, sentinel_drift

READINGS: Final = ("kind", "sentinel", "session", "card", "seconds")
FACTORS: Final = (
    *("kind", "card", "session_id", "factor", "low", "high", "interval_holds", "sentinels"),
)
# Kinds of work: what speeds up and slows down together on another card. Chips of one model differ
# in the clock that they hold at a power limit, little in memory, and not at all in the full clock.
LINK, MEMORY, LAUNCH = "links", "memory", "launches"
POWER_LIMITED, FULL_CLOCK = "products at the power limit", "products at the full clock"
_FEWEST: Final = 2  # sessions or cards that can differ


@dataclass(frozen=True, slots=True)
class PanelFit:
    """Sessions of one kind that share sentinels: their factors, logarithms, around the mean card.

    cards       card -> its sessions
    timed       [sentinels, sessions], 1 where a sentinel was timed
    variance    of the mean of a sentinel in a session, with its degrees of freedom
    covariance  [sessions, sessions] of the factors of sessions where a cell has variance 1; only
                differences of factors have variances, so an addend to all of it is free
    """

    kind: str
    sessions: dict[str, float]
    cards: dict[str, list[str]]
    timed: Array
    variance: float
    degrees: float
    covariance: Array

    def squared_error(self, sessions: Collection[str]) -> float:
        """Variance of the mean factor of sessions, around the mean card that they may belong to."""
        weights = dict.fromkeys(self.sessions, 0.0)
        for of_card in self.cards.values():
            for session in of_card:
                weights[session] -= 1 / len(self.cards) / len(of_card)
        for session in sessions:
            weights[session] += 1 / len(sessions)
        weight = np.array(list(weights.values()))
        products = weight[:, None] * weight * self.covariance
        return self.variance * float(np.add.reduce(products.ravel()))

    def row(self, card: str, session: str, factor: float, half: float, holds: str) -> list[Any]:
        """A row of `panel_factors`, of a factor and half of its interval as logarithms."""
        ends = [factor, factor - half, factor + half]
        limits = np.clip([factor if math.isnan(end) else end for end in ends], -700, 700)
        value, low, high = portable_math.exp(limits).tolist()
        ends = [math.nan] * 2 if math.isnan(half) else [low, high]
        own = [session] if session else self.cards[card]
        columns = [place for place, name in enumerate(self.sessions) if name in own]
        sentinels = int(self.timed[:, columns].any(axis=1).sum())
        return [self.kind, card, session, value, *ends, holds, sentinels]


def kinds_of_work(frame: pd.DataFrame) -> "pd.Series[Any]":
    """The kind of work of each row of a tidy frame that is not empty, or of its sentinels."""
    spec = BY_NAME[str(frame["op"].iloc[0])]
    kind = {"probe_link": LINK, "probe_launch": LAUNCH}.get(spec.name, MEMORY)
    if spec.received_bytes is not None:
        kind = LINK
    if kind == LINK or not {"m", "n", "k"} <= set(spec.axes):
        return pd.Series(kind, index=frame.index, dtype=object)
    limited = frame["throttle_reasons"].astype(object).fillna("").str.contains("power").astype(bool)
    sizes = frame[list(spec.axes)].astype(int).itertuples(index=False)
    is_decode = [spec.regime(dict(zip(spec.axes, row, strict=True))) == "decode" for row in sizes]
    kinds = np.where(is_decode, MEMORY, np.where(limited, POWER_LIMITED, FULL_CLOCK))
    return pd.Series(kinds, index=frame.index, dtype=object)


def panel_readings(
    frames: Mapping[str, pd.DataFrame], sessions: Mapping[str, Sequence[Session]]
) -> pd.DataFrame:
    """Every repetition of every sentinel of a run; an op and its probe share sentinels.

    A sentinel is of the kind of work that most of its repetitions are of.
    """
    kinds: dict[str, str] = {}
    readings = []
    for op, frame in frames.items():
        drift = sentinel_drift(frame)
        cards = cards_by_session(sessions[op])
        for names, rows in by_sentinel(drift) if len(drift) else ():
            sentinel = " ".join(map(str, (BY_NAME[op].folder, *names[1:])))
            kinds[sentinel] = str(kinds_of_work(rows).mode().iloc[0])
            for session, seconds in zip(rows["session_id"], rows["median_s"], strict=True):
                readings.append((sentinel, str(session), cards.get(str(session), ""), seconds))
    table = pd.DataFrame(readings, columns=list(READINGS[1:]))
    return table.assign(kind=table["sentinel"].map(kinds))  # op and probe agree


def panel_factors(fits: Sequence[PanelFit]) -> pd.DataFrame:
    """How much longer work of a kind takes in a session, or on a card, than on the mean card.

    Rows of sessions, then those of cards, kind by kind; none where nothing can be compared.
    panel.csv.md of the section describes the columns. Two sessions linked by a single sentinel have
    the interval of repetitions alone: nothing shows how another sentinel would differ.
    """
    rows = [row for of_fit in (_session_rows, _card_rows) for fit in fits for row in of_fit(fit)]
    return pd.DataFrame(rows, columns=list(FACTORS))


def card_spreads(fits: Sequence[PanelFit]) -> list[CardSpread]:
    """The spread between cards of each kind of work that two cards or more share."""
    return [
        spread_between_cards(
            fit.kind,
            [fmean(fit.sessions[session] for session in own) for own in fit.cards.values()],
        )
        for fit in fits
        if len(fit.cards) >= _FEWEST
    ]


def panel_fits(readings: pd.DataFrame) -> list[PanelFit]:
    """One fit of each group of sessions that are joined by sentinels of a kind in common.

    readings: a row for each repetition of a sentinel, with the columns READINGS; times in s.
    """
    fits = []
    for kind, of_kind in readings.groupby("kind", sort=False):
        several = of_kind.groupby("sentinel")["session"].transform("nunique") >= _FEWEST
        shared = of_kind[several]
        groups: list[set[tuple[str, str]]] = []
        for session, sentinel in shared[["session", "sentinel"]].itertuples(index=False):
            names = {("session", session), ("sentinel", sentinel)}
            apart = [group for group in groups if group.isdisjoint(names)]
            joined = [group for group in groups if not group.isdisjoint(names)]
            groups = [*apart, names.union(*joined)]
        for group in groups:
            in_group = [("session", session) in group for session in shared["session"]]
            fits.append(_fit(str(kind), shared[in_group]))
    return fits


def _fit(kind: str, readings: pd.DataFrame) -> PanelFit:
    """Least squares of cells on sentinels and sessions, by the normal equations of sessions.

    Without the sentinels these are L x = b: L is the Laplacian of the graph of sessions in which
    each sentinel of k sessions joins every two of them by 1/k, and b sums by how much a session's
    cells lie above the means of their sentinels. L has rank sessions - 1; with 1/sessions added to
    each of its elements it has an inverse, which is the pseudo-inverse of L but for an addend.
    """
    logs = portable_math.log(readings["seconds"].to_numpy()).tolist()
    repetitions: dict[tuple[str, str], list[float]] = {}
    for sentinel, session, log in zip(readings["sentinel"], readings["session"], logs, strict=True):
        repetitions.setdefault((sentinel, session), []).append(log)
    sentinels, sessions = (list(dict.fromkeys(names)) for names in zip(*repetitions, strict=True))
    timed, cells = (np.zeros((len(sentinels), len(sessions))) for _ in range(2))
    for (sentinel, session), values in repetitions.items():
        cell = sentinels.index(sentinel), sessions.index(session)
        timed[cell], cells[cell] = 1.0, fmean(values)

    counts = np.add.reduce(timed, axis=1, keepdims=True)
    cells = timed * (cells - np.add.reduce(cells, axis=1, keepdims=True) / counts)
    joined = np.add.reduce(timed[:, :, None] * timed[:, None, :] / counts[:, :, None], axis=0)
    laplacian = np.diag(np.add.reduce(timed, axis=0)) - joined
    every = np.broadcast_to(laplacian + 1 / len(sessions), (len(sessions), *laplacian.shape))
    covariance = cholesky_solve(every, np.eye(len(sessions)))
    factors = np.add.reduce(covariance * np.add.reduce(cells, axis=0), axis=1)
    means = np.add.reduce(timed * factors, axis=1, keepdims=True) / counts
    residuals = (cells - timed * (factors - means)).ravel().tolist()

    by_session = dict(zip(sessions, factors.tolist(), strict=True))
    cards: dict[str, list[str]] = {}
    for session, card in dict(zip(readings["session"], readings["card"], strict=True)).items():
        cards.setdefault(card, []).append(session)
    centre = fmean(fmean(by_session[session] for session in own) for own in cards.values())
    by_session = {name: value - centre for name, value in by_session.items()}
    # The variance of a cell comes from what sentinels did against the others of their kind, or
    # from their own repetitions, whichever is larger; it is not a number without either.
    variances = []
    if degrees := len(repetitions) - len(sentinels) - len(sessions) + 1:
        variances.append((sum(value**2 for value in residuals) / degrees, float(degrees)))
    repeated = [values for values in repetitions.values() if len(values) > 1]
    if within := float(sum(len(values) - 1 for values in repeated)):
        squares = sum(sum((v - fmean(values)) ** 2 for v in values) for values in repeated)
        count = fmean(len(values) for values in repetitions.values())
        variances.append((squares / within / count, within))
    variance, its_degrees = max(variances, default=(math.nan, 1.0))
    return PanelFit(kind, by_session, cards, timed, variance, its_degrees, covariance)


def _session_rows(fit: PanelFit) -> Iterator[list[Any]]:
    t = float(quantile(np.array([fit.degrees]))[0])
    card_of = {session: card for card, own in fit.cards.items() for session in own}
    for session, factor in fit.sessions.items():
        half = t * float(np.sqrt(fit.squared_error([session])))
        yield fit.row(card_of[session], session, factor, half, HOLDS["visits"])


def _card_rows(fit: PanelFit) -> Iterator[list[Any]]:
    """Of fits with several cards. Between sessions of a card, cards are taken to scatter alike."""
    if len(fit.cards) < _FEWEST:
        return
    means = {card: fmean(fit.sessions[s] for s in own) for card, own in fit.cards.items()}
    degrees = len(fit.sessions) - len(fit.cards)
    squares = sum(
        (fit.sessions[session] - means[card]) ** 2
        for card, own in fit.cards.items()
        for session in own
    )
    between = squares / degrees if degrees else 0.0
    t_own, t_between = quantile(np.array([fit.degrees, float(max(degrees, 1))])).tolist()
    # Squares of standard errors of the mean of a card's sessions, and of the mean card.
    errors = {card: between / len(own) for card, own in fit.cards.items()}
    mean_error = sum(errors.values()) / len(errors) ** 2
    holds = HOLDS["sessions" if degrees else "visits"]
    for card, factor in means.items():
        of_sentinels = fit.squared_error(fit.cards[card])
        of_sessions = errors[card] * (1 - 2 / len(errors)) + mean_error
        half = float(np.sqrt(t_own**2 * of_sentinels + t_between**2 * of_sessions))
        yield fit.row(card, "", factor, half, holds)


def on_panel_scale(frame: pd.DataFrame, factors: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame with its times on the scale of the mean card, beside those as measured.

    panel_factor  how much longer work of that kind took in the session of the point
    panel_s       median_s over panel_factor

    Both are empty where the session shares no sentinel with another, and for times that combine
    several sessions. A frame without any factor is returned as it is.
    """
    known = factors[factors["session_id"] != ""].set_index(["session_id", "kind"])["factor"]
    if frame.empty or known.empty:
        return frame
    keys = pd.MultiIndex.from_arrays([frame["session_id"], kinds_of_work(frame)])
    of_one_session = frame[INTERVAL_HOLDS].isin([HOLDS["samples"], HOLDS["visits"]])
    values = pd.Series(known.reindex(keys).to_numpy(), index=frame.index).where(of_one_session)
    if values.isna().all():
        return frame
    return frame.assign(panel_factor=values, panel_s=frame["median_s"] / values)
