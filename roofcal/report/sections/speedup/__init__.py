"""Speed-up of every recipe against the baseline of its op."""

from collections.abc import Iterator
from typing import Final

from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import best_by_regime, best_text, products_alone_text
from roofcal.report.data.op_pages import headline_op
from roofcal.report.kit.blocks import Block, Column, absence
from roofcal.report.kit.columns import HOLDS_COLUMN, count, counts, ratio, seconds, text, texts
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, CsvTable, Section, whole_run
from roofcal.report.sections.speedup.figures import draw_speedups

FILE: Final = "speedups.csv"


def columns_of(op: OpSpec) -> list[Column]:
    """The columns of the speed-ups of an op; the page leaves out those without a value."""
    return [
        *texts("recipe", "provider"),
        count("world_size", "devices"),
        *counts(*op.axes),
        text("regime", "regime"),
        seconds("baseline_s", "baseline"),
        seconds("median_s", "median"),
        ratio("speedup", "speed-up"),
        ratio("speedup_low", "low"),
        ratio("speedup_high", "high"),
        HOLDS_COLUMN,
        ratio("memory_ratio", "memory", "peak memory over that of the baseline"),
    ]


def _answer(analysis: Analysis) -> Answer:
    op = headline_op()
    speedups, baseline = analysis.speedups.get(op), str(BY_NAME[op].baseline_recipe)
    best, alone = best_by_regime(speedups, op), products_alone_text(speedups, op)
    if not best.empty:
        text = (
            f"It depends on the shape. Fastest, in speeds of {baseline}: "
            f"{best_text(best, baseline)} (medians, casts not counted)."
        )
    elif alone:
        text = f"{baseline}: no narrow recipe that serves a linear was measured beside it."
    else:
        reason = f"no narrow recipe of {op} was measured beside its baseline."
        return Answer(f"Cannot be told here: {reason}", is_open=True)
    return Answer(f"{text} {alone}".rstrip())


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    for op, table in analysis.speedups.items():
        baseline = str(BY_NAME[op].baseline_recipe)
        yield from writer.figures(*draw_speedups(table, baseline, analysis.frames[op]))
        if len(table):
            name = f"Speed-up of {op} against {baseline}"
            yield writer.table(f"speedups-{op}", name, table, columns_of(BY_NAME[op]), FILE)
        elif BY_NAME[op].role == "study":
            yield absence(f"No shape of {op} has a time in both {baseline} and another recipe.")


def _tables(analysis: Analysis) -> Iterator[CsvTable]:
    for table in analysis.speedups.values():
        yield CsvTable(FILE, table)


SECTION = Section(
    "Speed-up against the baseline",
    "recipe",
    whole_run,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("speedup_by_tokens", "speedup_cubes", "speedup_by_layer", "speedup_by_shape"),
)
