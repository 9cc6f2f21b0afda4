"""The estimates of language models of a run as the report reads them, and what its table shows."""

from pathlib import Path
from typing import Final

import pandas as pd

from roofcal.report.data.derived import read_derived
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, in_unit, text

SOURCE: Final = "llm.csv"
_LABELS: Final = ("model", "recipe", "fits")
_CUT: Final = ("tensor_parallel", "pipeline_parallel", "batch", "largest_batch")
_TIMES: Final = tuple(
    f"{name}{end}" for name in ("first_token", "decode_step") for end in ("_s", "_low_s", "_high_s")
)
_RATES: Final = tuple(f"decode_tokens_per_s{end}" for end in ("", "_low", "_high"))
_BYTES: Final = ("weight_bytes_per_gpu",)
NEEDED: Final = (*_LABELS, *_CUT, *_BYTES, *_TIMES, *_RATES)


def _number(key: str, label: str, unit: str, factor: float, about: str = "") -> Column:
    show = in_unit(factor, 3)
    return Column(key=key, label=label, kind="number", unit=unit, show=show, about=about)


COLUMNS: Final[tuple[Column, ...]] = (
    text("model", "model"),
    text("recipe", "recipe"),
    count("tensor_parallel", "tp"),
    count("pipeline_parallel", "pp"),
    text("fits", "fits"),
    _number("weight_bytes_per_gpu", "weights", "GB per GPU", 1e-9),
    _number("first_token_s", "first token", "ms", 1e3, "one request"),
    _number("decode_step_s", "per token", "ms", 1e3, "one request"),
    _number("decode_step_low_s", "low", "ms", 1e3, "end of the 95 % interval"),
    _number("decode_step_high_s", "high", "ms", 1e3, "end of the 95 % interval"),
    text("decode_bound_by", "bound by", "the part that most of a token's time goes to"),
    count("largest_batch", "largest batch"),
    _number("most", "decode there", "tokens/s", 1, "all requests of the largest batch"),
    _number("most_low", "low", "tokens/s", 1, "end of the 95 % interval"),
    _number("most_high", "high", "tokens/s", 1, "end of the 95 % interval"),
)


def read_estimates(derived: Path) -> pd.DataFrame:
    """The rows of llm.csv of a run; empty where it has none. Raises as read_derived."""
    return read_derived(derived / SOURCE, NEEDED, NEEDED[len(_LABELS) :])


def by_cut(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model, recipe and cut: times of one request, throughput of the largest batch."""
    keys = ["model", "recipe", "tensor_parallel", "pipeline_parallel"]
    one = table[table["batch"] == 1]
    last = table[table["batch"] == table["largest_batch"]]
    most = last[[*keys, *_RATES]].rename(
        columns=dict(zip(_RATES, ("most", "most_low", "most_high"), strict=True))
    )
    return one.merge(most, on=keys, how="left")
