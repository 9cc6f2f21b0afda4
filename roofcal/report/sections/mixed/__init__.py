"""Products with narrow weights: which format wins where, which roof binds, what accuracy costs.

The question that it answers in three sentences of records, "why is int4 x bf16 decode slower than
fp8?", is that of NVIDIA/cutlass, "Hopper mixed precision gemm always worse than FP8": weights
[3584, 8192], groups of 64, 16 tokens. CUTLASS's own kernel is not among the providers.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME
from roofcal.points.roofs import COPY, constants_of
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Block, Prose, absence, paragraphs
from roofcal.report.kit.numbers import count_of, scaled, times
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Answer, CsvTable, Section
from roofcal.report.sections.mixed import tables
from roofcal.report.sections.mixed.figures import draw_bandwidth, draw_crossover, draw_roofs

SHAPE: Final = {"m": 16, "n": 3584, "k": 8192}
RECIPE: Final = "int4_groupwise_g64"
_FP8: Final = "fp8_tensorwise"
_AT: Final = "weights [3,584, 8,192] in groups of 64 and 16 tokens"
_ROOFS: Final = tables.ROOFS | {
    "slots": "the issue slots of dequantisation",
    "math": "the matrix unit and its activations",
}

Row = Mapping[Hashable, Any]


def answer_sentences(frame: pd.DataFrame, calibration: Calibration | None) -> list[str]:
    """Bytes against time, the roof that other kernels meet, and what ours do about it.

    If the records lack the points of a sentence, it says what was not measured.
    """
    timed = tables.rows_with_format(frame)
    at_shape = timed[(timed[list(SHAPE)] == pd.Series(SHAPE)).all(axis=1)]
    rows = at_shape.sort_values("median_s", kind="stable").to_dict("records")
    return [
        _time_sentence(rows, calibration),
        _roof_sentence(rows, calibration),
        _own_sentence(rows, calibration),
    ]


def winners_sentence(winners: pd.DataFrame) -> str:
    """At how many measured shapes each format of the weights is the fastest; "" without any.

    winners: of tables.winners_table.
    """
    rows = winners[(winners["kind"] == "measured") & (winners["mode"] == "plain")]
    if rows.empty:
        return ""
    parts = []
    for name in tables.FORMATS[::-1]:
        own = rows[rows["format"] == name]
        if len(own):
            tokens, best = f"m = {own['m'].min():,} to {own['m'].max():,}", own["ratio"].max()
            parts.append(f"{name} at {len(own)} ({tokens}, up to {times(best)} the next format)")
    shapes = count_of(len(rows), "measured shape")
    return f"Of {shapes} of few tokens, the fastest weights are {', '.join(parts)}."


def _fastest(rows: Sequence[Row], recipe: str, *, ours: bool | None = None) -> Row | None:
    """The fastest plain launch of a recipe: of our kernels, of the others, or (None) of all."""
    plain = (row for row in rows if row["recipe"] == recipe and row["provider"] != tables.CHAINED)
    return next(
        (row for row in plain if ours is None or (row["provider"] in tables.OURS) == ours), None
    )


def _time_sentence(rows: Sequence[Row], calibration: Calibration | None) -> str:
    fp8 = _fastest(rows, _FP8)
    others = {"int4": _fastest(rows, RECIPE, ours=False), "bf16": _fastest(rows, "bf16")}
    if fp8 is None:
        return f"Not measured: {_FP8} at {_AT}, so there is nothing to compare int4 with."
    parts = [f"fp8 by {fp8['provider']} took {_time_text(fp8['median_s'])}"]
    for name, row in others.items():
        if row is not None:
            ratio = times(row["median_s"] / fp8["median_s"])
            parts.append(
                f"{name} by {row['provider']} {_time_text(row['median_s'])} ({ratio} as long)"
            )
    missing = "" if others["int4"] else "; int4 by another library was not measured"
    share = times(_least_bytes(RECIPE) / _least_bytes(_FP8))
    copy = constants_of(calibration).get(COPY)
    floor = (
        f", {_time_text(_least_bytes(RECIPE) / copy.value)} at the calibrated copy bandwidth"
        if copy
        else ""
    )
    return f"At {_AT} {', '.join(parts)}{missing}; int4 moves {share} the bytes of fp8{floor}."


def _roof_sentence(rows: Sequence[Row], calibration: Calibration | None) -> str:
    pairs = tables.pairs_with_roofs(calibration)
    foreign = [
        provider for provider, recipe in pairs if recipe == RECIPE and provider not in tables.OURS
    ]
    chosen = [row for row in rows if row["recipe"] == RECIPE and row["provider"] in foreign]
    if calibration is None or not chosen:
        return (
            "Which roof other int4 kernels meet is not known here: none was both measured at this "
            "point and calibrated on probes."
        )
    parts = [_roofs_text(calibration, str(row["provider"])) for row in chosen]
    return f"The calibrated roofs say what holds it there: {'; '.join(parts)}."


def _roofs_text(calibration: Calibration, provider: str, subject: str = "") -> str:
    """Which roof binds a provider, and the time of each; `subject` stands for its name."""
    parts = tables.roofs_of_pair(
        calibration, provider, RECIPE, float(SHAPE["n"]), float(SHAPE["k"])
    )
    tokens = tables.tokens_of_pair(provider, RECIPE)
    index = int(np.searchsorted(tokens, SHAPE["m"]))
    return (
        f"{subject or provider} is bound by {_ROOFS[parts.bound_by[index]]} (memory "
        f"{_time_text(parts.dram[index])}, issue slots of dequantisation "
        f"{_time_text(parts.slots[index])}, matrix unit and activations "
        f"{_time_text(parts.math[index])}, launch {_time_text(parts.fixed[index])})"
    )


def _own_sentence(rows: Sequence[Row], calibration: Calibration | None) -> str:
    fp8, plain = _fastest(rows, _FP8), _fastest(rows, RECIPE, ours=True)
    if plain is None:
        return f"Not measured: kernels.int4_gemm at {_AT}."
    chained = next(
        (r for r in rows if r["recipe"] == RECIPE and r["provider"] == tables.CHAINED), None
    )
    chaining = (
        "and was not measured by chained launches"
        if chained is None
        else f"and, apart from that, {_gain_text(chained, fp8)} by chained ones, which start under "
        "the end of the kernel before"
    )
    bound = ""
    if calibration is not None and ("triton", RECIPE) in tables.pairs_with_roofs(calibration):
        bound = f"; {_roofs_text(calibration, 'triton', 'it')}"
    return (
        f"Our kernels.int4_gemm took {_gain_text(plain, fp8)} by a plain launch {chaining}{bound}."
    )


def _gain_text(row: Row, fp8: Row | None) -> str:
    if fp8 is None:
        return _time_text(row["median_s"])
    ratio = times(fp8["median_s"] / row["median_s"])
    return f"{_time_text(row['median_s'])} ({ratio} as fast as fp8)"


def _least_bytes(recipe: str) -> float:
    return BY_NAME[tables.OP].work(recipe, SHAPE).dram_bytes


def _time_text(seconds: float) -> str:
    return scaled(float(seconds), "s")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The tidy frame of the op and the tables made of it."""

    frame: pd.DataFrame
    calibration: Calibration | None
    spec: DeviceSpec | None
    winners: pd.DataFrame
    roofs: pd.DataFrame
    errors: pd.DataFrame


def _contents(analysis: Analysis) -> _Contents | None:
    """None where no product with narrow weights was planned."""
    frame, calibration = analysis.frames.get(tables.OP), analysis.run.calibration
    if frame is None or frame.empty:
        return None
    return _Contents(
        frame=frame,
        calibration=calibration,
        spec=analysis.spec,
        winners=tables.winners_table(frame),
        roofs=tables.roofs_table(frame, calibration),
        errors=tables.errors_table(frame),
    )


def _blocks(contents: _Contents | None, writer: SectionWriter) -> Iterator[Block]:
    if contents is None:
        return
    frame, calibration = contents.frame, contents.calibration
    yield Prose(text="Why is int4 x bf16 decode slower than fp8?")
    yield from paragraphs(answer_sentences(frame, calibration))
    winners, roofs = contents.winners, contents.roofs
    if winners.empty:
        yield absence("No shape has a time in int4 and in another format: no crossover map.")
    yield from writer.figures(draw_crossover(winners), source=tables.WINNERS_FILE)
    if len(winners):
        name = "Fastest format of the weights, and the fastest other one"
        yield writer.table("mixed-winners", name, winners, tables.WINNERS, tables.WINNERS_FILE)
    yield from writer.figures(draw_bandwidth(frame, calibration, contents.spec))
    if roofs.empty:
        yield absence("No roofs of narrow weights: probe_mixed_gemm was not calibrated.")
    yield from writer.figures(draw_roofs(frame, calibration))
    if len(roofs):
        name = "Which roof binds, by tokens"
        yield writer.table("mixed-roofs", name, roofs, tables.ROOF_COLUMNS, tables.ROOFS_FILE)
    name = "Error of the kernel and of the format, kept apart"
    yield writer.table("mixed-errors", name, contents.errors, tables.ERRORS, tables.ERRORS_FILE)


def _tables(contents: _Contents | None) -> Iterator[CsvTable]:
    if contents is not None:
        yield CsvTable(tables.WINNERS_FILE, contents.winners)
        yield CsvTable(tables.ROOFS_FILE, contents.roofs)
        yield CsvTable(tables.ERRORS_FILE, contents.errors)


def _answer(contents: _Contents | None) -> Answer:
    sentence = winners_sentence(contents.winners) if contents else ""
    missing = "Cannot be told here: no shape has a time in int4 and in another format."
    return Answer(sentence or missing, is_open=not sentence)


SECTION = Section(
    "Mixed precision: int4 weights",
    "weights",
    _contents,
    _blocks,
    tables=_tables,
    answer=_answer,
    lead=("mixed_bandwidth",),
)
