"""Predictions on layers of public models that no study lists, drawn by a seed."""

from collections.abc import Iterator
from typing import Final

from roofcal.judge.errors import error_sentences
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table, paragraphs
from roofcal.report.kit.columns import count, fraction, named
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "judged_errors.csv"
ERRORS: Final = (
    *named("op", "model", "recipe", "provider", "regime"),
    count("drawn", "drawn"),
    count("left_out", "left out", "points whose shape the study or its probes have"),
    count("count", "points", "points with a time and a prediction that are not left out"),
    fraction("mape", "MAPE"),
    fraction("bias", "bias", signed=True, about="exp(mean of log(predicted / measured)) - 1"),
    fraction("p95_abs_error", "95th percentile"),
    fraction("coverage", "in interval, of 95 %"),
    fraction("half_width", "half-width", about="median of sqrt(high / low) - 1 of the intervals"),
)


def show(analysis: Analysis) -> Iterator[Item]:
    """A sentence of each op and the table of the seed that was measured last; the file has all."""
    errors = analysis.judged
    if errors.empty:
        return
    yield CsvTable(FILE, errors)
    seed = int(errors["seed"].iloc[-1])
    newest = errors[errors["seed"] == seed]
    day = str(newest["measured_utc"].iloc[0])[:10]
    yield Prose(
        text=f"Seed {seed} drew layers of public models that no study lists. Each was measured "
        f"alone until it had settled, on {day}. No fit reads these records."
    )
    yield from paragraphs(error_sentences(newest))
    yield Table("judged", f"Errors on the layers of seed {seed}", newest, ERRORS, FILE)


SECTION = Section("On layers nobody listed", "trust", show)
