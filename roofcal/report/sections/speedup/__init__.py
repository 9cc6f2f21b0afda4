"""Speed-up of every recipe against the baseline of its op."""

from collections.abc import Iterator
from typing import Final

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.comparisons import best_gain
from roofcal.report.data.op_pages import headline_op
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import SIZES, count, ratio, seconds, text, texts
from roofcal.report.kit.numbers import times
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import CsvTable, Section, whole_run
from roofcal.report.sections.speedup.figures import draw_speedups

FILE: Final = "speedups.csv"
COLUMNS: Final = (
    *texts("recipe", "provider"),
    count("world_size", "devices"),
    *SIZES,
    text("regime", "regime"),
    seconds("baseline_s", "baseline"),
    seconds("median_s", "median"),
    ratio("speedup", "speed-up"),
    ratio("speedup_low", "low"),
    ratio("speedup_high", "high"),
)


def _answer(analysis: Analysis) -> str:
    op = headline_op()
    gain = best_gain(analysis.speedups.get(op), op)
    if gain is None:
        return f"Cannot be told here: no narrow recipe of {op} was measured beside its baseline."
    speed, recipe = gain
    verb = "gains most over" if speed > 1 else "comes closest to"
    return (
        f"For large products {recipe} {verb} {BY_NAME[op].baseline_recipe}: {times(speed)} its "
        "speed (median, casts not counted); by shape, and with the casts, the parts below say "
        "where it gains."
    )


def _blocks(analysis: Analysis, writer: SectionWriter) -> Iterator[Block]:
    for op, table in analysis.speedups.items():
        baseline = str(BY_NAME[op].baseline_recipe)
        yield from writer.figures(*draw_speedups(table, baseline))
        if len(table):
            name = f"Speed-up of {op} against {baseline}"
            yield writer.table(f"speedups-{op}", name, table, COLUMNS, FILE)
        else:
            yield absence(f"No shape of {op} has a time in both {baseline} and another recipe.")


def _tables(analysis: Analysis) -> Iterator[CsvTable]:
    for table in analysis.speedups.values():
        yield CsvTable(name=FILE, frame=table)


SECTION = Section(
    key="speedup",
    title="Speed-up against the baseline",
    question="recipe",
    contents=whole_run,
    blocks=_blocks,
    tables=_tables,
    answer=_answer,
)
