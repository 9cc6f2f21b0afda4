"""The answer to "why is int4 x bf16 decode slower than fp8?" in three sentences of records.

The question is that of NVIDIA/cutlass, "Hopper mixed precision gemm always worse than FP8": weights
[3584, 8192], groups of 64, 16 tokens. CUTLASS's own kernel is not among the providers.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME
from roofcal.report.kit.numbers import scaled, times
from roofcal.report.sections.mixed.tables import (
    CHAINED,
    OP,
    OURS,
    ROOFS,
    TOKENS,
    calibrated,
    roofs_of,
    timed,
)

SHAPE: Final = {"m": 16, "n": 3584, "k": 8192}
RECIPE: Final = "int4_groupwise_g64"
_FP8: Final = "fp8_tensorwise"
_AT: Final = "weights [3,584, 8,192] in groups of 64 and 16 tokens"

Row = Mapping[Hashable, Any]


def answer(frame: pd.DataFrame, calibration: Calibration | None) -> list[str]:
    """Bytes against time, the roof that other kernels meet, and what ours do about it.

    A sentence says what was not measured where the records lack it.
    """
    rows = _at_the_point(frame)
    return [_bytes(rows, calibration), _why(rows, calibration), _ours(rows, calibration)]


def _at_the_point(frame: pd.DataFrame) -> Sequence[Row]:
    rows = timed(frame)
    here = (rows["m"] == SHAPE["m"]) & (rows["n"] == SHAPE["n"]) & (rows["k"] == SHAPE["k"])
    return rows[here].sort_values("median_s", kind="stable").to_dict("records")


def _fastest(rows: Sequence[Row], recipe: str, *, ours: bool | None = None) -> Row | None:
    """The fastest plain launch of a recipe; of our kernels or of the others where `ours` is set."""
    plain = (row for row in rows if row["recipe"] == recipe and row["provider"] != CHAINED)
    fitting = (row for row in plain if ours is None or (row["provider"] in OURS) == ours)
    return next(fitting, None)


def _bytes(rows: Sequence[Row], calibration: Calibration | None) -> str:
    fp8 = _fastest(rows, _FP8)
    others = [_fastest(rows, RECIPE, ours=False), _fastest(rows, "bf16")]
    if fp8 is None:
        return f"Not measured: {_FP8} at {_AT}, so there is nothing to compare int4 with."
    share = _least(RECIPE) / _least(_FP8)
    said = [f"fp8 by {fp8['provider']} took {_us(fp8['median_s'])}"]
    for name, row in zip(("int4", "bf16"), others, strict=True):
        if row is not None:
            versus = times(row["median_s"] / fp8["median_s"])
            said.append(f"{name} by {row['provider']} {_us(row['median_s'])} ({versus} as long)")
    missing = "" if others[0] else "; int4 by another library was not measured"
    bytes_of = f"int4 moves {times(share)} the bytes of fp8{_floor(calibration)}"
    return f"At {_AT} {', '.join(said)}{missing}; {bytes_of}."


def _floor(calibration: Calibration | None) -> str:
    copy = calibration.constants.get("dram_copy_bytes_per_s") if calibration else None
    if copy is None:
        return ""
    return f", {_us(_least(RECIPE) / copy.value)} at the calibrated copy bandwidth"


def _why(rows: Sequence[Row], calibration: Calibration | None) -> str:
    known = [p for p, recipe in calibrated(calibration) if recipe == RECIPE and p not in OURS]
    some = [row for row in rows if row["recipe"] == RECIPE and row["provider"] in known]
    if calibration is None or not some:
        return (
            "Which roof other int4 kernels meet is not known here: none was both measured at this "
            "point and calibrated on probes."
        )
    said = [_roofs(calibration, str(row["provider"])) for row in some]
    return f"The calibrated roofs say what holds it there: {'; '.join(said)}."


def _roofs(calibration: Calibration, provider: str) -> str:
    sizes = (float(SHAPE["n"]), float(SHAPE["k"]))
    parts = roofs_of(calibration, provider, RECIPE, *sizes)
    index = int(np.searchsorted(TOKENS, SHAPE["m"]))
    return (
        f"{provider} is bound by {_ROOF_WORDS[parts.bound_by[index]]} (memory "
        f"{_us(parts.dram[index])}, issue slots of dequantisation {_us(parts.slots[index])}, "
        f"matrix unit and activations {_us(parts.math[index])}, launch {_us(parts.fixed[index])})"
    )


_ROOF_WORDS: Final = ROOFS | {
    "slots": "the issue slots of dequantisation",
    "math": "the matrix unit and its activations",
}


def _ours(rows: Sequence[Row], calibration: Calibration | None) -> str:
    fp8, plain = _fastest(rows, _FP8), _fastest(rows, RECIPE, ours=True)
    if plain is None:
        return f"Not measured: kernels.int4_gemm at {_AT}."
    chained = next((r for r in rows if r["recipe"] == RECIPE and r["provider"] == CHAINED), None)
    said = [f"Our kernels.int4_gemm took {_gain(plain, fp8)} by a plain launch"]
    if chained is None:
        said.append("and was not measured by chained launches")
    else:
        said.append(
            f"and, apart from that, {_gain(chained, fp8)} by chained ones, which start under the "
            "end of the kernel before"
        )
    bound = ""
    if calibration is not None and ("triton", RECIPE) in calibrated(calibration):
        bound = f"; {_roofs(calibration, 'triton').replace('triton', 'it', 1)}"
    return f"{' '.join(said)}{bound}."


def _gain(row: Row, fp8: Row | None) -> str:
    if fp8 is None:
        return _us(row["median_s"])
    ratio = fp8["median_s"] / row["median_s"]
    faster = times(ratio) + " as fast as fp8"
    return f"{_us(row['median_s'])} ({faster})"


def _least(recipe: str) -> float:
    return BY_NAME[OP].work(recipe, SHAPE).dram_bytes


def _us(seconds: float) -> str:
    return scaled(float(seconds), "s")
