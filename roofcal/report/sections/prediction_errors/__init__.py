"""Predictions of every op against what was measured."""

from collections.abc import Iterable, Iterator
from typing import Final

from roofcal.points.columns import MODEL
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import error_of, judged, with_model_labels
from roofcal.report.data.regime_matrices import error_table
from roofcal.report.data.tidy import with_shape
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import code, count, fraction, ratio, seconds, text, texts
from roofcal.report.kit.numbers import count_of, percent
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, CsvTable, Section, whole_run
from roofcal.report.sections.prediction_errors.figures import (
    draw_error_by_regime,
    draw_measured_against_predicted,
)

FILE: Final = "error_by_regime.csv"
_MOST_WORST: Final = 20
ERRORS: Final = (
    *texts("model", "regime", "recipe", "provider"),
    count("count", "points"),
    fraction("mape", "MAPE"),
    fraction("median_abs_error", "median"),
    fraction("p95_abs_error", "95th percentile"),
    fraction("median_error", "bias", signed=True),
    fraction("worst_error", "worst", signed=True),
    fraction("coverage", "in interval, of 95 %"),
    fraction("coverage_low", "at least"),
    fraction("coverage_high", "at most"),
    ratio("interval_score", "interval score", digits=2),
    count("violations", "faster than it says"),
)
WORST: Final = (
    *texts("recipe", "provider", "shape", "regime"),
    seconds("median_s", "measured"),
    seconds("predicted_s", "predicted"),
    fraction("relative_error", "error", signed=True),
    text("bound_by", "bound by"),
    code("kernel_names", "kernel"),
)


def _answer(analysis: Analysis) -> Answer:
    rows = {op: error_of(analysis.errors, MODEL, op=op) for op in analysis.predicted_ops}
    op, row = next(((op, row) for op, row in rows.items() if row is not None), ("", None))
    if row is None:
        reason = "the calibrated model predicted no point of this run."
        return Answer(f"Cannot be told here: {reason}", is_open=True)
    return Answer(
        f"Times of {op} are off by {percent(row['mape'])} on average over "
        f"{count_of(int(row['count']), 'point')} that were not fitted on; "
        f"{percent(row['coverage'], 0)} of them lie inside their 95 % intervals."
    )


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    if analysis.errors.empty:
        yield absence("Nothing was predicted in this run.")
        return
    labelled = with_model_labels(analysis.errors, analysis.labels)
    for op in analysis.studies:
        frame = analysis.frames[op]
        yield from writer.figures(
            draw_measured_against_predicted(frame, analysis.labels),
            draw_error_by_regime(frame, analysis.labels),
        )
        errors = labelled[labelled["op"] == op]
        if len(errors):
            yield error_table(errors, op, id=f"{writer.anchor}-regimes-{op}")
            name = f"Error of {op} by model, regime, recipe and provider"
            yield writer.table(f"errors-{op}", name, errors, ERRORS, FILE)
        yield from _worst_points(analysis, op, writer)


def _worst_points(analysis: Analysis, op: str, writer: SectionWriter) -> Iterator[Block]:
    rows = judged(analysis.frames[op])
    rows = rows[rows["relative_error"].notna()]
    order = rows["relative_error"].abs().sort_values(ascending=False, kind="stable").index
    if len(rows):
        worst = with_shape(rows.loc[order[:_MOST_WORST]])
        name = f"The {len(worst)} points of {op} furthest from their prediction"
        yield writer.table(f"worst-{op}", name, worst, WORST, writer.csv(op))


def _tables(analysis: Analysis) -> Iterable[CsvTable]:
    return [CsvTable(FILE, analysis.errors)]


SECTION = Section(
    "Measured against predicted",
    "trust",
    whole_run,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("measured_against_predicted",),
)
