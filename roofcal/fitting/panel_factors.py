"""How sessions, cards and cards of one model differ, by sentinels that they share.

The logarithm of the time of a sentinel in a session is what it takes, plus what the session (and
its card) adds to all sentinels of that kind of work, plus what only this sentinel did in it. The
first two come from least squares over the sentinels that sessions share; the third is the error.
A sentinel of one session alone says nothing of how sessions differ, and is left out. Factors are
around the mean of the cards, so they multiply to 1 over cards. Sessions that share no sentinel,
also not by way of others, cannot be compared and are in no group.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from roofcal.core import portable_math
from roofcal.core.times import Array
from roofcal.core.visits.intervals import HOLDS, chi_square_ends, quantile
from roofcal.fitting.batched_least_squares import cholesky_solve

_FEWEST: Final = 2  # sessions or cards that can differ

Cell = tuple[str, str]  # sentinel, session


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelReading:
    """One repetition of a sentinel: its time in s, in which session, on which card."""

    kind: str
    sentinel: str
    session: str
    card: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFactor:
    """How much longer work of a kind takes in a session, or on a card, than on the mean card.

    session    '' for the factor of a card, over its sessions
    factor     1.02: 2 % longer; low, high: ends of its 95 % interval, not a number where nothing
               was repeated. Sessions that no more sentinels join than must (two with one) have
               that of repetitions alone: nothing shows how another sentinel would differ
    holds      how far that can be trusted, see roofcal.core.visits.intervals.HOLDS
    sentinels  how many it comes from: those that another session has too
    """

    kind: str
    card: str
    session: str
    factor: float
    low: float
    high: float
    holds: str
    sentinels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSpread:
    """Standard deviation between cards of one model, a fraction of the time, for a kind of work.

    It includes the error of measuring the cards. low, high: of its 95 % interval.
    """

    kind: str
    cards: int
    spread: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """Sessions of one kind that share sentinels: their factors, logarithms, around the mean card.

    cells       sentinels in sessions that were timed
    variance    of a cell, with its degrees of freedom
    covariance  [sessions, sessions] of the factors of sessions where a cell has variance 1; only
                differences of factors have variances, so an addend to all of it is free
    """

    kind: str
    by_session: Mapping[str, float]
    card_of: Mapping[str, str]
    cells: Collection[Cell]
    variance: float
    degrees: float
    covariance: Array

    @property
    def sessions_of(self) -> dict[str, list[str]]:
        """Card -> its sessions."""
        sessions: dict[str, list[str]] = {}
        for session in self.by_session:
            sessions.setdefault(self.card_of[session], []).append(session)
        return sessions

    def sentinels_in(self, sessions: Iterable[str]) -> int:
        """Sentinels that were timed in any of these sessions."""
        chosen = set(sessions)
        return len({sentinel for sentinel, session in self.cells if session in chosen})

    def squared_error(self, sessions: Collection[str]) -> float:
        """Variance of the mean factor of sessions, around the mean card that they may belong to."""
        weights = dict.fromkeys(self.by_session, 0.0)
        for of_card in self.sessions_of.values():
            for session in of_card:
                weights[session] -= 1 / len(self.sessions_of) / len(of_card)
        for session in sessions:
            weights[session] += 1 / len(sessions)
        weight = np.array(list(weights.values()))
        products = weight[:, None] * weight * self.covariance
        return self.variance * float(np.add.reduce(products.ravel()))


def panel_factors(readings: Sequence[PanelReading]) -> list[PanelFactor]:
    """The factors of sessions, then those of cards, kind by kind; [] where none can be compared."""
    fits = _fits(readings)
    sessions = [factor for fit in fits for factor in _session_factors(fit)]
    return sessions + [factor for fit in fits for factor in _card_factors(fit)]


def card_spreads(readings: Sequence[PanelReading]) -> list[CardSpread]:
    """The spread between cards of each kind of work that two cards or more share."""
    spreads = []
    for fit in _fits(readings):
        values = [
            fmean(fit.by_session[s] for s in sessions) for sessions in fit.sessions_of.values()
        ]
        if len(values) >= _FEWEST:
            spreads.append(spread_between_cards(fit.kind, values))
    return spreads


def spread_between_cards(kind: str, values: Sequence[float]) -> CardSpread:
    """The standard deviation of cards, with the interval of a normal sample (chi-square).

    values: logarithm of the factor of each card; at least two.
    """
    degrees = len(values) - 1
    centre = fmean(values)
    variance = sum((value - centre) ** 2 for value in values) / degrees
    lower, upper = chi_square_ends(degrees)
    variances = (variance, variance * degrees / upper, variance * degrees / lower)
    spread, low, high = (float(np.sqrt(part)) for part in variances)
    return CardSpread(kind=kind, cards=len(values), spread=spread, low=low, high=high)


def _fits(readings: Sequence[PanelReading]) -> list[_Fit]:
    """One fit of each group of sessions that share sentinels of a kind; two sessions at least."""
    fits = []
    for kind in dict.fromkeys(reading.kind for reading in readings):
        of_kind = _of_shared_sentinels([reading for reading in readings if reading.kind == kind])
        fits += [
            _fit(kind, [reading for reading in of_kind if reading.session in sessions])
            for sessions in _connected(of_kind)
            if len(sessions) >= _FEWEST
        ]
    return fits


def _of_shared_sentinels(readings: Sequence[PanelReading]) -> list[PanelReading]:
    """The readings of sentinels that two sessions have at least."""
    sessions: dict[str, set[str]] = {}
    for reading in readings:
        sessions.setdefault(reading.sentinel, set()).add(reading.session)
    return [reading for reading in readings if len(sessions[reading.sentinel]) >= _FEWEST]


def _connected(readings: Sequence[PanelReading]) -> list[set[str]]:
    """Sets of sessions that are joined by sentinels in common."""
    groups: list[tuple[set[str], set[str]]] = []  # sessions, sentinels
    for reading in readings:
        sessions, sentinels = {reading.session}, {reading.sentinel}
        apart = []
        for group in groups:
            if group[0] & sessions or group[1] & sentinels:
                sessions, sentinels = sessions | group[0], sentinels | group[1]
            else:
                apart.append(group)
        groups = [*apart, (sessions, sentinels)]
    return [sessions for sessions, _ in groups]


def _fit(kind: str, readings: Sequence[PanelReading]) -> _Fit:
    """Least squares of cells on sentinels and sessions, by the normal equations of sessions.

    Without the sentinels these are L x = b: L is the Laplacian of the graph of sessions in which
    each sentinel of k sessions joins every two of them by 1/k, and b sums by how much a session's
    cells lie above the means of their sentinels. L has rank sessions - 1; with 1/sessions added to
    each of its elements it has an inverse, which is the pseudo-inverse of L but for an addend.
    """
    logs = portable_math.log(np.array([reading.seconds for reading in readings])).tolist()
    repetitions: dict[Cell, list[float]] = {}
    for reading, log in zip(readings, logs, strict=True):
        repetitions.setdefault((reading.sentinel, reading.session), []).append(log)
    sentinels = list(dict.fromkeys(sentinel for sentinel, _ in repetitions))
    sessions = list(dict.fromkeys(session for _, session in repetitions))
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
    card_of = {reading.session: reading.card for reading in readings}
    cards = {card: [s for s in sessions if card_of[s] == card] for card in card_of.values()}
    centre = fmean(fmean(by_session[session] for session in own) for own in cards.values())
    by_session = {name: value - centre for name, value in by_session.items()}
    degrees = len(repetitions) - len(sentinels) - len(sessions) + 1
    variance, degrees_of_it = _variance_of_a_cell(residuals, degrees, list(repetitions.values()))
    return _Fit(kind, by_session, card_of, list(repetitions), variance, degrees_of_it, covariance)


def _variance_of_a_cell(
    residuals: Sequence[float], degrees: int, repetitions: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """(variance, degrees of freedom) of the mean of a sentinel in a session.

    From what sentinels did against the others of their kind, or from their own repetitions,
    whichever is larger: with one sentinel, only its repetitions say anything. Not a number without
    either.
    """
    candidates = []
    if degrees > 0:
        candidates.append((sum(value**2 for value in residuals) / degrees, float(degrees)))
    repeated = [values for values in repetitions if len(values) > 1]
    within = float(sum(len(values) - 1 for values in repeated))
    if within:
        squares = sum(sum((v - fmean(values)) ** 2 for v in values) for values in repeated)
        count = fmean(len(values) for values in repetitions)
        candidates.append((squares / within / count, within))
    return max(candidates, default=(math.nan, 1.0))


def _session_factors(fit: _Fit) -> list[PanelFactor]:
    t = float(quantile(np.array([fit.degrees]))[0])
    return [
        _factor(
            fit,
            card=fit.card_of[session],
            session=session,
            value=value,
            half=t * float(np.sqrt(fit.squared_error([session]))),
            holds=HOLDS["visits"],
        )
        for session, value in fit.by_session.items()
    ]


def _card_factors(fit: _Fit) -> list[PanelFactor]:
    """Of fits with several cards. Between sessions of a card, cards are taken to scatter alike."""
    sessions_of = fit.sessions_of
    if len(sessions_of) < _FEWEST:
        return []
    means = {card: fmean(fit.by_session[s] for s in own) for card, own in sessions_of.items()}
    degrees = len(fit.by_session) - len(sessions_of)
    squares = sum(
        (fit.by_session[session] - means[card]) ** 2
        for card, own in sessions_of.items()
        for session in own
    )
    between = squares / degrees if degrees else 0.0
    t_own, t_between = quantile(np.array([fit.degrees, float(max(degrees, 1))])).tolist()
    # Squares of standard errors of the mean of a card's sessions, and of the mean card.
    errors = {card: between / len(own) for card, own in sessions_of.items()}
    mean_error = sum(errors.values()) / len(errors) ** 2
    factors = []
    for card, value in means.items():
        of_sentinels = fit.squared_error(sessions_of[card])
        of_sessions = errors[card] * (1 - 2 / len(errors)) + mean_error
        half = float(np.sqrt(t_own**2 * of_sentinels + t_between**2 * of_sessions))
        holds = HOLDS["sessions" if degrees else "visits"]
        factors.append(_factor(fit, card=card, session="", value=value, half=half, holds=holds))
    return factors


def _factor(
    fit: _Fit, *, card: str, session: str, value: float, half: float, holds: str
) -> PanelFactor:
    half_known = 0.0 if math.isnan(half) else half
    logs = np.clip([value, value - half_known, value + half_known], -700, 700)
    ends = portable_math.exp(logs).tolist()
    low, high = (math.nan, math.nan) if math.isnan(half) else ends[1:]
    own = [session] if session else fit.sessions_of[card]
    return PanelFactor(
        kind=fit.kind,
        card=card,
        session=session,
        factor=ends[0],
        low=low,
        high=high,
        holds=holds,
        sentinels=fit.sentinels_in(own),
    )
