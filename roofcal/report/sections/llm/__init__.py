"""Estimates of language models: throughput, latency, and what fits."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.derived import DerivedTable, derived_table
from roofcal.report.kit.blocks import Block, absence
from roofcal.report.kit.columns import count, number, text, texts
from roofcal.report.kit.writer import SectionWriter
from roofcal.report.section import Section, derived_file
from roofcal.report.sections.llm.figure import draw_llm

FILE: Final = "llm.csv"
LABELS: Final = ("model", "recipe", "fits")
_TIMES: Final = tuple(
    f"{name}{end}" for name in ("first_token", "decode_step") for end in ("_s", "_low_s", "_high_s")
)
_RATES: Final = ("decode_tokens_per_s", "decode_tokens_per_s_low", "decode_tokens_per_s_high")
NUMBERS: Final = (
    *("tensor_parallel", "pipeline_parallel", "batch", "largest_batch", "weight_bytes_per_gpu"),
    *_TIMES,
    *_RATES,
)
_END: Final = "end of the 95 % interval"
COLUMNS: Final = (
    *texts("model", "recipe"),
    count("tensor_parallel", "tp"),
    count("pipeline_parallel", "pp"),
    text("fits", "fits"),
    number("weight_bytes_per_gpu", "weights", "GB per GPU", 1e-9),
    number("first_token_s", "first token", "ms", 1e3, about="one request"),
    number("decode_step_s", "per token", "ms", 1e3, about="one request"),
    number("decode_step_low_s", "low", "ms", 1e3, about=_END),
    number("decode_step_high_s", "high", "ms", 1e3, about=_END),
    text("decode_bound_by", "bound by", "the part that takes most of a token's time"),
    count("largest_batch", "largest batch"),
    number("most", "decode there", "tokens/s", 1, about="all requests of the largest batch"),
    number("most_low", "low", "tokens/s", 1, about=_END),
    number("most_high", "high", "tokens/s", 1, about=_END),
)


def one_row_per_cut(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model, recipe and cut: times of one request, throughput of the largest batch."""
    keys = ["model", "recipe", "tensor_parallel", "pipeline_parallel"]
    one = table[table["batch"] == 1]
    last = table[table["batch"] == table["largest_batch"]]
    most = last[[*keys, *_RATES]].rename(
        columns=dict(zip(_RATES, ("most", "most_low", "most_high"), strict=True))
    )
    return one.merge(most, on=keys, how="left")


def _blocks(derived: DerivedTable, writer: SectionWriter) -> Iterator[Block]:
    estimates = derived.rows
    if estimates.empty:
        yield absence("This run has no estimates of language models.")
        return
    yield from writer.figures(draw_llm(estimates), source=FILE, command=derived.command)
    name = "Language models by recipe and cut: one request, and the largest batch that fits"
    yield writer.table("llm-cuts", name, one_row_per_cut(estimates), COLUMNS, FILE)


SECTION = Section(
    key="llm",
    title="Language models",
    question="recipe",
    contents=lambda analysis: derived_table(analysis.run, FILE, LABELS, NUMBERS),
    blocks=_blocks,
    tables=derived_file,
)
