"""What a device reaches once its clock has settled, and why short benchmarks print more."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.roofs import COPY
from roofcal.report.data.tidy import row_of_largest, shape_texts, standard_rows
from roofcal.report.kit.numbers import is_missing, percent, scaled

BURST_RECIPE: Final = "bf16"
_CLEARLY_FASTER: Final = 1.02


def ceiling_sentences(analysis: Analysis) -> Iterator[str]:
    """The fastest probe and bf16, beside the datasheet and a burst; memory copies."""
    if analysis.run.calibration is None:
        yield "Nothing is calibrated: the run has no calibration.jsonl, so no model is judged here."
        return
    constants = analysis.constants
    rows = constants[constants["name"].str.endswith(".ceiling_flops_per_s")]
    ordered = rows.sort_values("value", ascending=False).to_dict("records")
    shown = [r for n, r in enumerate(ordered) if n == 0 or r["name"].split(".")[-2] == "bf16"]
    parts = [
        f"{scaled(row['value'], 'flop/s')} in {_contender_text(row)}{_datasheet_text(row)}"
        for row in shown
    ]
    if parts:
        yield f"Its fastest probe, settled, ran at {'; '.join(parts)}.{_burst_text(analysis)}"
    for row in constants[constants["name"] == COPY].to_dict("records"):
        yield f"Memory copies at {scaled(row['value'], 'B/s')}{_datasheet_text(row)}."


@dataclass(frozen=True, slots=True)
class Burst:
    """The point with the fastest first milliseconds, and what it settled at, FLOP/s."""

    shape: str
    flops_per_s: float
    settled_flops_per_s: float


def fastest_burst(analysis: Analysis) -> Burst | None:
    """The fastest burst in bf16; None without one, and where the clock did not come down.

    An H200 needs two seconds at its power limit to come down from 1965 to about 1400 MHz.
    """
    frames = [standard_rows(f[f["recipe"] == BURST_RECIPE]) for f in analysis.frames.values()]
    rows = [f.assign(rate=f["flops"] / f["burst_median_s"], shape=shape_texts(f)) for f in frames]
    columns = ["rate", "shape", "achieved_flops_per_s"]
    rates = pd.concat([frame[columns] for frame in rows]).dropna() if rows else pd.DataFrame()
    if rates.empty:
        return None
    row = row_of_largest(rates, "rate")
    burst = Burst(str(row["shape"]), float(row["rate"]), float(row["achieved_flops_per_s"]))
    is_faster = burst.flops_per_s >= _CLEARLY_FASTER * burst.settled_flops_per_s
    return burst if is_faster else None


def _burst_text(analysis: Analysis) -> str:
    burst = fastest_burst(analysis)
    if burst is None:
        return ""
    return (
        f" A benchmark of a few milliseconds prints more: at {burst.shape}, {BURST_RECIPE} "
        f"began with {scaled(burst.flops_per_s, 'flop/s')} and settled at "
        f"{scaled(burst.settled_flops_per_s, 'flop/s')}."
    )


def _contender_text(constant: Mapping[Any, Any]) -> str:
    """`bf16 by cublaslt`, of a constant `gemm.<provider>.<recipe>.<constant>`."""
    _, *provider, recipe, _ = str(constant["name"]).split(".")
    return " by ".join([recipe, *provider])


def _datasheet_text(constant: Mapping[Any, Any]) -> str:
    share = constant["fraction"]
    return "" if is_missing(share) else f" ({percent(share, 0)} of the datasheet)"
