"""The six questions of a reader: which sections answer each, and the answer in a sentence."""

from collections.abc import Callable, Sequence
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import error_of
from roofcal.report.data.tidy import MODEL
from roofcal.report.data.verdicts import summary
from roofcal.report.glance import best_gain
from roofcal.report.kit.blocks import Question, Section
from roofcal.report.kit.numbers import count_of, percent, times

# key, title, sections by key; a section that no question names stands under the first
QUESTIONS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "recipe",
        "Which recipe for my layer?",
        ("speedup", "breakeven", "mixed", "linear-accuracy", "gathered", "llm", "roofline"),
    ),
    ("healthy", "Is my GPU healthy?", ("health", "bandwidth")),
    ("changed", "What moved?", ("moved",)),
    (
        "trust",
        "Can I trust the prediction?",
        ("accuracy", "constants", "learning", "transfer", "audit"),
    ),
    ("ledger", "Do the claims hold?", ("claims",)),
    (
        "how",
        "How was this measured?",
        ("quality", "methods", "missing", "points", "provenance"),
    ),
)


def questions(a: Analysis, anchor: str, sections: Sequence[tuple[str, Section]]) -> list[Question]:
    """All six, in order, with their answers; sections: (key, section) of a chapter."""
    named = {key for _, _, keys in QUESTIONS for key in keys}
    first = QUESTIONS[0][0]
    found = dict(sections)
    rest = [section for key, section in sections if key not in named]
    return [
        Question(
            id=f"{anchor}-{key}",
            title=title,
            answer=ANSWERS[key](a),
            sections=[found[k] for k in keys if k in found] + (rest if key == first else []),
        )
        for key, title, keys in QUESTIONS
    ]


def _recipe(a: Analysis) -> str:
    gain = best_gain(a)
    if gain is None:
        return "Cannot be told here: no narrow recipe of gemm was measured beside its baseline."
    ratio, recipe = gain
    verb = "gains most over" if ratio > 1 else "comes closest to"
    return (
        f"For large products {recipe} {verb} bf16: {times(ratio)} its speed (median, casts not "
        "counted); by shape, and with the casts, the parts below say where it gains."
    )


def _moved(a: Analysis) -> str:
    if a.moved is None:
        return "Nothing to compare with: this is the only or the first environment of the device."
    counts = a.moved["counts"]
    return (
        f"{counts['SLOWER']:,} of {count_of(sum(counts.values()), 'point')} became slower and "
        f"{counts['FASTER']:,} faster than in the environment before."
    )


def _trust(a: Analysis) -> str:
    ops = dict.fromkeys(a.errors["op"]) if len(a.errors) else {}
    rows = {op: error_of(a.errors, MODEL, op=op) for op in ops}
    op, row = next(((op, row) for op, row in rows.items() if row is not None), ("", None))
    if row is None:
        return "Cannot be told here: the calibrated model predicted no point of this run."
    return (
        f"Times of {op} are off by {percent(row['mape'])} on average over "
        f"{count_of(int(row['count']), 'point')} that were not fitted on; "
        f"{percent(row['coverage'], 0)} of them lie inside their 95 % intervals."
    )


def _claims(a: Analysis) -> str:
    if not a.claims:
        return "Not judged on this page; `python -m roofcal claims` holds them against the records."
    return f"Of {count_of(len(a.claims), 'published claim')}, {summary(a.claims)}."


def _how(a: Analysis) -> str:
    known = a.quality["half_width_fraction"].astype(float) if len(a.quality) else pd.Series()
    widths = known.dropna()
    spread = (
        f"; half the 95 % interval of a median is {percent(float(widths.median()), 2)} (middle op)"
        if len(widths)
        else ""
    )
    return (
        f"{count_of(a.timed, 'point')} timed by {count_of(len(a.every_session), 'session')}, every "
        f"sample kept{spread}."
    )


ANSWERS: Final[dict[str, Callable[[Analysis], str]]] = {
    "recipe": _recipe,
    "healthy": lambda a: a.health.answer,
    "changed": _moved,
    "trust": _trust,
    "ledger": _claims,
    "how": _how,
}
