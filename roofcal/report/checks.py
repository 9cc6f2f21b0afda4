"""Checks of everything about a run that could be suspicious."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import pandas as pd

from roofcal.core.visits.intervals import HOLDS, MEANINGS
from roofcal.core.visits.rows import (
    DISTURBED,
    STATE_FACTOR,
    drift_texts,
    load_texts,
    session_drift,
    width_texts,
)
from roofcal.models.calibrations import cards_like
from roofcal.ops.priors import unlike_other_cards
from roofcal.report.data import quality
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.panel_factors import card_spreads
from roofcal.report.data.tidy import ok_rows
from roofcal.report.kit.numbers import MICROSECONDS, count_of, is_missing, percent, times

_ALARMING: Final = ("failed", "timeout", "incorrect", "out_of_memory", "not_reached")
_MOST_DRIFT: Final = 0.02
_FAR_BEYOND_CEILING: Final = 1.1


@dataclass(frozen=True, slots=True)
class Check:
    """A sentence on whether something is as it should be: ok, look (at it), or note.

    link, target  title of the table that shows it, and the id of that table within the chapter
    """

    state: Literal["ok", "look", "note"]
    text: str
    link: str = ""
    target: str = ""


def all_checks(analysis: Analysis) -> list[Check]:
    """All checks of a run, in the order of the page."""
    return [
        *_roof_checks(analysis),
        *_status_checks(analysis.missing),
        *_drift_checks(analysis),
        *_state_checks(analysis.points_with_states),
        *_clock_checks(analysis.frames.get(headline_op())),
        *_card_checks(analysis),
        *_provenance_checks(analysis),
    ]


def disturbances(analysis: Analysis) -> list[str]:
    """Why the numbers of a run are too noisy to use, one sentence each; [] where they are not.

    Sentinels moved by more than 10 % within a session, half of the times of an op are uncertain by
    as much (a clock that never settles does that), or other processes loaded the machine.
    """
    reasons = []
    for row in analysis.quality.to_dict("records"):
        half = row["half_width_fraction"]
        reasons += drift_texts(row["op"], _largest_drift(analysis.frames[row["op"]]))
        reasons += [] if is_missing(half) else width_texts(row["op"], half)
    is_cpu = analysis.run.environment.vendor == "cpu"
    return reasons + load_texts(analysis.all_sessions, is_cpu=is_cpu)


def _largest_drift(frame: pd.DataFrame) -> float:
    """The drift of the session that moved most, see session_drift; 0 where none was repeated."""
    drift = quality.sentinel_drift(frame)
    return max(
        (
            session_drift(times.tolist() for _, times in quality.by_sentinel(rows)["median_s"])
            for _, rows in drift.groupby("session_id")
        ),
        default=0.0,
    )


def _roof_checks(analysis: Analysis) -> Iterator[Check]:
    if not analysis.timed:
        yield Check("look", "No point has a time to compare with datasheet and ceilings.")
        return
    table = analysis.violations
    # zeros draw less power than the random data of the calibration, so only normal data counts
    normal = table[table["distribution"] == "normal"] if len(table) else table
    beyond_datasheet = quality.worst_factor(table, "datasheet") if len(table) else None
    beyond_ceiling = quality.worst_factor(normal, "calibrated") if len(normal) else None
    if analysis.spec is None:
        yield Check("note", f"There is no datasheet of {analysis.device} to compare times with.")
    elif beyond_datasheet is None:
        yield Check("ok", "No cold point is faster than its datasheet allows.")
    else:
        count = int((table["bound"] == "datasheet").sum())
        yield Check(
            "look",
            f"{count_of(count, 'point is', 'points are')} faster than the datasheet allows, "
            f"by up to {times(beyond_datasheet)}: see Points faster than a roof.",
        )
    if beyond_ceiling is not None:
        count = int((normal["bound"] == "calibrated").sum())
        yield Check(
            "look" if beyond_ceiling > _FAR_BEYOND_CEILING else "note",
            f"{count_of(count, 'point')} ran faster than the calibrated ceilings, by up to "
            f"{times(beyond_ceiling)}: the probes did not reach what these shapes reach.",
        )
    elif analysis.run.calibration is not None:
        yield Check("ok", "No cold point is faster than the calibrated ceilings.")


def _status_checks(missing: pd.DataFrame) -> Iterator[Check]:
    if missing.empty:
        yield Check("ok", "Every planned point was measured.")
        return
    counts = missing["status"].value_counts().to_dict()
    words = ", ".join(f"{count:,} {str(name).replace('_', ' ')}" for name, count in counts.items())
    text = f"{count_of(len(missing), 'point has', 'points have')} no time: {words}."
    yield Check("look" if any(name in counts for name in _ALARMING) else "note", text)


def _drift_checks(analysis: Analysis) -> Iterator[Check]:
    """What the sentinels show about the times of each op, and how narrow its intervals are."""
    for row in analysis.quality.to_dict("records"):
        op, drift, narrow = row["op"], row["drift_fraction"], row["narrow_fraction"]
        if not is_missing(drift):
            sentinel, in_session = "The repeated sentinel of", _largest_drift(analysis.frames[op])
            text = f"{sentinel} {op} stayed within {percent(drift)}."
            if in_session > DISTURBED:
                moved = f"{sentinel} {op} moved by {percent(in_session)} in a session"
                text = f"{moved}: the times of that session are not to be trusted."
            elif drift > DISTURBED:
                text = (
                    f"{sentinel} {op} moved by {percent(drift)} between sessions: times of "
                    "different sessions cannot be compared."
                )
                sessions = quality.sentinel_drift(analysis.frames[op]).groupby("session_id")
                of_one = max(quality.drift_fraction(rows) or 0.0 for _, rows in sessions)
                if of_one > DISTURBED:
                    text = (
                        f"One repeated sentinel of {op} moved by {percent(of_one)} in a session, "
                        "the others less: that point has several states."
                    )
            yield Check("look" if drift > _MOST_DRIFT else "ok", text)
        if not is_missing(narrow) and narrow < 0.9:
            share = percent(1 - narrow, 0)
            text = f"{share} of the medians of {op} are uncertain by more than 1 %."
            yield Check("note", text)


def _state_checks(table: pd.DataFrame) -> Iterator[Check]:
    """Points whose visits disagree, so that no visit took their published time."""
    if table.empty:
        return
    counts = ", ".join(f"{n:,} of {op}" for op, n in table["op"].value_counts().items())
    held = int(table["is_held"].sum())
    count = count_of(len(table), "point has", "points have")
    text = (
        f"{count} several states, which are visits more than {percent(STATE_FACTOR - 1, 0)} "
        f"apart: {counts}. {held:,} of their 95 % intervals include all states of the point."
    )
    yield Check("look", text, quality.STATES_TITLE, quality.STATES_TABLE)


def _clock_checks(frame: pd.DataFrame | None) -> Iterator[Check]:
    """What the power limit does: burst against settled, and how often the card named a reason."""
    rows = ok_rows(frame) if frame is not None else pd.DataFrame()
    if rows.empty or not rows["sm_clock_hz"].notna().any():
        return
    throttled, op = float(rows["throttle_reasons"].notna().mean()), rows["op"].iloc[0]
    text = (
        f"The card named a reason to clock down during {percent(throttled, 0)} of the {op} points."
    )
    long = rows[(rows["median_s"] >= quality.LONG_S) & rows["burst_median_s"].notna()]
    if len(long):
        slower = float((long["median_s"] / long["burst_median_s"] - 1).median())
        text += (
            f" Products of 100 {MICROSECONDS} and more are {percent(slower)} slower once settled "
            "than in their first milliseconds (median); all times here are settled ones."
        )
    yield Check("note", text)


def _card_checks(analysis: Analysis) -> Iterator[Check]:
    """Whether the card is as fast as others of its architecture."""
    run, spec = analysis.run, analysis.spec
    if run.calibration is None or spec is None:
        return
    # A published run is one of the cards itself.
    itself = (analysis.device, analysis.environment_id) if run.origin == "published" else None
    cards = [c for c in cards_like(spec) if (c.device, c.environment_id) != itself]
    unlike = unlike_other_cards(run.calibration, cards, spec)
    yield from (Check("look", f"{text[0].upper()}{text[1:]}.") for text in unlike)
    if any(card.constants for card in cards) and not unlike:  # one record is of no card
        yield Check("ok", "Memory and long products are as fast as those of other published cards.")


def _provenance_checks(analysis: Analysis) -> Iterator[Check]:
    """The code that measured, the cards, and how far intervals can be trusted."""
    sessions = analysis.all_sessions
    if any(session.git_dirty for session in sessions):
        yield Check("look", "Measured from a checkout with uncommitted changes.")
    cards = {op: {card for s in own for card in s.cards} for op, own in analysis.sessions.items()}
    several = {card for own in cards.values() for card in own}
    if len(several) > 1:
        ops_by_count: dict[int, list[str]] = {}
        for op, own in cards.items():
            ops_by_count.setdefault(len(own), []).append(op)
        usage = "; ".join(
            f"{', '.join(ops)} on {'one' if count == 1 else count}"
            for count, ops in sorted(ops_by_count.items())
            if count
        )
        spreads = [
            f"{percent(one.spread)} (95 %: {percent(one.low)} to {percent(one.high)}) in {one.kind}"
            for one in card_spreads(analysis.panel)
        ]
        apart = (
            f"by their sentinels they differ by {', '.join(spreads)} (standard deviation)"
            if spreads
            else "they share no sentinel, so how they differ is unknown"
        )
        yield Check(
            "look",
            f"Measured on {len(several)} cards of this model ({usage}), whose differences are "
            f"part of the prediction error: {apart}.",
        )
    if once := quality.times_by_hold(analysis.frames)[HOLDS["samples"]]:
        what = MEANINGS[HOLDS["samples"]]
        text = f"{once:,} of {analysis.timed:,} times have an interval that covers {what} only."
        yield Check("look" if 2 * once > analysis.timed else "note", text)
    hashes = {(session.op, session.code_hash) for session in sessions}
    if len(hashes) > len({op for op, _ in hashes}):
        yield Check("look", "The sessions of one op ran different measuring code.")
