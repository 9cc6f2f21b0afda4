"""What stands in the sections of a chapter, or why there is nothing; sections.py orders them."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import with_shape
from roofcal.report.data.audit import reasons, roofs_beaten
from roofcal.report.data.constants import probe_errors_table
from roofcal.report.data.prediction_errors import judged
from roofcal.report.data.provenance import (
    commands,
    learning_command,
    llm_command,
    map_command,
    sessions_table,
)
from roofcal.report.data.tidy import axes_of, sqnr_columns
from roofcal.report.kit import columns
from roofcal.report.kit.blocks import Block, Commands, Prose
from roofcal.report.kit.writer import Pen, absent
from roofcal.report.matrices import error_table
from roofcal.report.sections.bandwidth.figures import draw_casts, draw_streams
from roofcal.report.sections.breakeven import table as breakeven_section
from roofcal.report.sections.breakeven.figure import draw_breakeven
from roofcal.report.sections.breakeven.table import smallest_m
from roofcal.report.sections.constants.table import FULL, HEADLINE, readable
from roofcal.report.sections.learning import table as learning_section
from roofcal.report.sections.learning.figure import draw_learning
from roofcal.report.sections.learning.table import by_probes
from roofcal.report.sections.linear_accuracy import tables as linears
from roofcal.report.sections.linear_accuracy.figures import draw_dots, draw_matrix, draw_speed
from roofcal.report.sections.llm import table as llm_section
from roofcal.report.sections.llm.figure import draw_llm
from roofcal.report.sections.method_panel.figure import draw_panel
from roofcal.report.sections.mixed import tables as mixed_section
from roofcal.report.sections.mixed.answer import answer
from roofcal.report.sections.mixed.crossover import draw_crossover
from roofcal.report.sections.mixed.figures import draw_bandwidth, draw_roofs
from roofcal.report.sections.moved import tables as moved_section
from roofcal.report.sections.prediction_errors.figures import (
    draw_error_by_regime,
    draw_measured_against_predicted,
)
from roofcal.report.sections.quality.figures import draw_burst, draw_session
from roofcal.report.sections.roofline.figure import draw as draw_roofline
from roofcal.report.sections.speedup.figures import draw_speedups
from roofcal.report.sections.transfer import table as transfer_section

_WORST: Final = 20


def constants(pen: Pen) -> Iterator[Block]:
    """Calibrated constants, and what they miss on probes left out."""
    a = pen.a
    if a.run.calibration is None:
        yield absent("This run is not calibrated: it has no calibration.jsonl.")
        return
    yield Prose(
        text=f"Fitted on {a.run.calibration.probe_points:,} probe points alone; intervals are "
        "95 % bootstrap intervals. No constant is taken from a datasheet."
    )
    shown = readable(a.constants[a.constants["headline"]])
    yield pen.table("headline", "What the device does", shown, HEADLINE, "constants.csv")
    rest = readable(a.constants[~a.constants["headline"].astype(bool)])
    if len(rest):
        name = "Constants of the models of products and casts"
        yield pen.table("constants-all", name, rest, FULL, "constants.csv")
    errors = probe_errors_table(a.run.calibration)
    if len(errors):
        name = "Error on probes that were left out of the fit"
        yield pen.table("probe-errors", name, errors, columns.PROBE_ERRORS)


def roofline(pen: Pen) -> Iterator[Block]:
    """A roofline per op."""
    a = pen.a
    for op in pen.studies():
        yield from pen.drawn([draw_roofline(a.frames[op], a.run.calibration, a.spec)])


def accuracy(pen: Pen) -> Iterator[Block]:
    """Predictions of every op against what was measured."""
    if pen.a.errors.empty:
        yield absent("Nothing was predicted in this run.")
        return
    for op in pen.studies():
        frame = pen.a.frames[op]
        errors = pen.errors(op)
        pictures = [
            draw_measured_against_predicted(frame, pen.a.labels),
            draw_error_by_regime(frame, pen.a.labels),
        ]
        yield from pen.drawn(pictures)
        if len(errors):
            yield error_table(errors, op, id=f"{pen.anchor}-regimes-{op}")
            name = f"Error of {op} by model, regime, recipe and provider"
            source = "error_by_regime.csv"
            yield pen.table(f"errors-{op}", name, errors, columns.ERRORS, source)
        yield from _worst(pen, op)


def learning(pen: Pen) -> Iterator[Block]:
    """Error by the number of probes; nothing without learning curves."""
    table, source = pen.a.learning, learning_section.SOURCE
    if table.empty:
        return
    yield from pen.drawn([draw_learning(table)], source, learning_command(pen.a.run))
    name = "Error on probes left out, by number of probes fitted on; middle repetition"
    yield pen.table("learning", name, by_probes(table), learning_section.COLUMNS, source)


def transfer(pen: Pen) -> Iterator[Block]:
    """Nothing where the device has one environment."""
    table = pen.a.transfers
    if table.empty:
        return
    yield Prose(
        text="How well constants of another driver or torch predict what was measured here: "
        "the calibrated model with the calibration of every other environment of this "
        "device, beside its own, over the points that both predict."
    )
    shown, wanted = (
        transfer_section.shown(table, pen.a.environment_id),
        transfer_section.COLUMNS,
    )
    name = "Own calibration against those of other environments"
    yield pen.table("transfers", name, shown, wanted, transfer_section.SOURCE)


def _worst(pen: Pen, op: str) -> Iterator[Block]:
    rows = judged(pen.a.frames[op])
    rows = rows[rows["relative_error"].notna()]
    order = rows["relative_error"].abs().sort_values(ascending=False, kind="stable").index
    if len(rows):
        worst = with_shape(rows.loc[order[:_WORST]])
        name = f"The {len(worst)} points of {op} furthest from their prediction"
        yield pen.table(f"worst-{op}", name, worst, columns.WORST, pen.csv(op))


def speedup(pen: Pen) -> Iterator[Block]:
    """Every recipe against the baseline of its op."""
    for op, table in pen.a.speedups.items():
        baseline = str(BY_NAME[op].baseline_recipe)
        yield from pen.drawn(list(draw_speedups(table, baseline)))
        if len(table):
            name = f"Speed-up of {op} against {baseline}"
            yield pen.table(f"speedups-{op}", name, table, columns.SPEEDUPS, "speedups.csv")
        else:
            yield absent(f"No shape of {op} has a time in both {baseline} and another recipe.")


def mixed(pen: Pen) -> Iterator[Block]:
    """Nothing where no product with narrow weights was planned."""
    a, calibration = pen.a, pen.a.run.calibration
    frame = a.frames.get(mixed_section.OP)
    if frame is None or frame.empty:
        return
    yield Prose(text="Why is int4 x bf16 decode slower than fp8?")
    for sentence in answer(frame, calibration):
        yield Prose(text=sentence)
    won, source = mixed_section.winners(frame), mixed_section.WINNERS_SOURCE
    if won.empty:
        yield absent("No shape has a time in int4 and in another format: no crossover map.")
    yield from pen.drawn([draw_crossover(won)], source)
    if len(won):
        name = "Fastest format of the weights, and the fastest other one"
        yield pen.table("mixed-winners", name, won, mixed_section.WINNERS, source)
    yield from pen.drawn([draw_bandwidth(frame, calibration, a.spec)])
    roofs, source = mixed_section.roofs_table(frame, calibration), mixed_section.ROOFS_SOURCE
    if roofs.empty:
        yield absent("No roofs of narrow weights: probe_mixed_gemm was not calibrated.")
    yield from pen.drawn([draw_roofs(frame, calibration)])
    if len(roofs):
        name = "Which roof binds, by tokens"
        yield pen.table("mixed-roofs", name, roofs, mixed_section.ROOF_COLUMNS, source)
    name = "Error of the kernel and of the format, kept apart"
    errors, source = mixed_section.errors_table(frame), mixed_section.ERRORS_SOURCE
    yield pen.table("mixed-errors", name, errors, mixed_section.ERRORS, source)


def linear_accuracy(pen: Pen) -> Iterator[Block]:
    """How far float8 linears are from float64; where that was not measured, how it would be."""
    frame = pen.a.frames.get(linears.OP)
    rows = None if frame is None else linears.measured(frame)
    if frame is None or rows is None or rows.empty:
        yield absent(linears.NOT_MEASURED)
        return
    pairs = linears.accumulation(frame)
    for sentence in linears.answer(rows, pairs):
        yield Prose(text=sentence)
    yield from pen.drawn([draw_matrix(rows), draw_dots(rows)])
    if len(pairs):
        name, source = "Fast against two-level accumulation", linears.ACCUMULATION_SOURCE
        yield pen.table("linear-accumulation", name, pairs, linears.ACCUMULATION, source)
    both = linears.beside_speed(frame, pen.a.speedups[linears.OP])
    if both.empty:
        yield absent(linears.NO_SPEED)
    yield from pen.drawn([draw_speed(both)], linears.SPEED_SOURCE)
    name = "Signal to quantisation noise of every point"
    yield pen.table("linear-accuracy", name, rows, linears.ACCURACY, pen.csv(linears.OP))


def breakeven(pen: Pen) -> Iterator[Block]:
    """The break-even map of linears."""
    if pen.a.breakeven.empty:
        yield absent("This run has no break-even map of linears.")
        return
    picture = draw_breakeven(pen.a.breakeven)
    yield from pen.drawn([picture], breakeven_section.SOURCE, map_command(pen.a.run))
    shown, wanted = smallest_m(pen.a.breakeven), breakeven_section.COLUMNS
    name = "Smallest m from which on a linear is faster than in bf16; none: never up to 131,072"
    yield pen.table("breakeven-m", name, shown, wanted, breakeven_section.SOURCE)


def bandwidth(pen: Pen) -> Iterator[Block]:
    """Memory streams, and casts."""
    a, calibration = pen.a, pen.a.run.calibration
    streams = a.frames.get("probe_copy")
    if streams is None or streams.empty:
        yield absent("The memory probe was not measured.")
    else:
        drawn = draw_streams(streams, calibration, a.spec, a.cache_bytes)
        yield from pen.drawn([drawn])
    for op in pen.studies():
        yield from pen.drawn([draw_casts(a.frames[op], calibration, a.spec)])


def llm(pen: Pen) -> Iterator[Block]:
    """Estimates of language models."""
    if pen.a.llm.empty:
        yield absent("This run has no estimates of language models.")
        return
    picture = draw_llm(pen.a.llm)
    yield from pen.drawn([picture], llm_section.SOURCE, llm_command(pen.a.run))
    shown, wanted = llm_section.by_cut(pen.a.llm), llm_section.COLUMNS
    name = "Language models by recipe and cut: one request, and the largest batch that fits"
    yield pen.table("llm-cuts", name, shown, wanted, llm_section.SOURCE)


def audit(pen: Pen) -> Iterator[Block]:
    """Points that are faster than a roof."""
    table = pen.a.violations
    yield Prose(
        text="A point whose whole interval lies below the least time of a roof says that the "
        "roof is wrong, that the data came from the cache, or that the timer is broken. Points "
        "timed hot are left out: their data stays in the cache on purpose."
    )
    if table.empty:
        yield Prose(text="There is none.")
        return
    counted = roofs_beaten(table)
    yield pen.table("causes", "Roofs beaten, and the likely cause", counted, columns.CAUSES)
    shown = columns.with_protocol(table)
    name = "Points faster than a roof"
    yield pen.table("violations", name, shown, columns.VIOLATIONS, "violations.csv")


def methods(pen: Pen) -> Iterator[Block]:
    """The same points by every method."""
    table = pen.a.panel
    if table.empty:
        yield absent("This run has no method panel.")
        return
    yield from pen.drawn([draw_panel(table)])
    shown = with_shape(columns.with_protocol(table))
    name = "The same points by every method"
    yield pen.table("panel", name, shown, columns.PANEL, "method_panel.csv")


def moved(pen: Pen) -> Iterator[Block]:
    """Nothing, and so no section, for the first environment of a device."""
    found = pen.a.moved
    if found is None:
        return
    for sentence in moved_section.sentences(found):
        yield Prose(text=sentence)
    for name, title, frame, wanted in moved_section.tables(found):
        if len(frame):
            yield pen.table(f"moved-{name}", title, frame, wanted)
    yield Commands(lines=[moved_section.command(found)])


def missing(pen: Pen) -> Iterator[Block]:
    """Points that have no result, with the reason."""
    table = pen.a.missing
    if table.empty:
        yield Prose(text="Every planned point was measured.")
        return
    counted = pd.concat(
        [reasons(group) for _, group in table.groupby("op")], ignore_index=True
    ).sort_values("count", ascending=False, kind="stable")
    yield pen.table("reasons", "Reasons", counted, columns.REASONS)
    shown = columns.with_protocol(table)
    name = "Every point that is not ok"
    yield pen.table("missing-all", name, shown, columns.MISSING_POINTS, "not_ok.csv")


def quality(pen: Pen) -> Iterator[Block]:
    """How well each op was measured."""
    a = pen.a
    name = "How each op was measured"
    yield pen.table("quality-ops", name, a.quality, columns.QUALITY, "quality.csv")
    yield from pen.drawn([draw_session(a.frames, a.sessions)])
    for op in pen.studies():
        yield from pen.drawn([draw_burst(a.frames[op])])


def points(pen: Pen) -> Iterator[Block]:
    """All points of all ops."""
    for op, frame in pen.a.frames.items():
        if frame.empty:
            yield absent(f"The plan of {op} is empty.")
            continue
        shown = columns.with_shown(frame)
        several = ["world_size"] if (frame["world_size"] > 1).any() else []
        wanted = columns.point_columns([*axes_of(frame), *several], sqnr_columns(frame))
        yield pen.table(f"points-{op}", f"Points of {op}", shown, wanted, pen.csv(op))


def provenance(pen: Pen) -> Iterator[Block]:
    """Sessions, sources, commands."""
    a = pen.a
    if a.every_session:
        name = "Sessions: when, where, of which code, by which command"
        table = sessions_table(a.every_session)
        yield pen.table("sessions", name, table, columns.SESSIONS)
    if a.spec is not None and a.spec.sources:
        sources = pd.DataFrame(sorted(a.spec.sources.items()), columns=["figure", "source"])
        kinds = (columns.text("figure", "figure"), columns.wide("source", "source"))
        yield pen.table("sources", "Sources of the datasheet", sources, kinds)
    yield Prose(text="From the records to this chapter again, in a checkout of roofcal:")
    yield Commands(lines=commands(a))
