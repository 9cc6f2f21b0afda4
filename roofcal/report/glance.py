"""One line per device: the first table of the page."""

from typing import Any, Final

import pandas as pd

from roofcal.ops.gemm.predict import LIBRARIES
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.prediction_errors import ALL, error_of, providers_in
from roofcal.report.data.tidy import MODEL
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, fraction, in_unit, text
from roofcal.report.kit.numbers import times
from roofcal.report.summary import fastest, narrower


def _rate(key: str, label: str, unit: str) -> Column:
    return Column(key=key, label=label, kind="number", unit=unit, show=in_unit(1e-12, 3))


GLANCE: Final = (
    text("device", "device"),
    text("records", "records"),
    count("points", "points"),
    count("ok", "ok"),
    _rate("bf16", "bf16", "TFLOP/s"),
    _rate("best", "fastest", "TFLOP/s"),
    _rate("memory", "copy", "TB/s"),
    Column(
        key="gain",
        label="best gain",
        kind="number",
        by="gain_ratio",
        about="highest median speed-up over large products, and its recipe",
    ),
    fraction("mape", "MAPE"),
    count("beyond", "over datasheet"),
    Column(key="environment", label="environment", kind="code"),
)


def glance_row(a: Analysis) -> dict[str, Any]:
    """The numbers of one run that a reader looks for first; None where it has none."""
    ceilings, gain = _ceilings(a), best_gain(a)
    error = _error(a)
    beyond = int((a.violations["bound"] == "datasheet").sum()) if len(a.violations) else 0
    return {
        "device": a.run.environment.device_name,
        "environment": a.environment_id,
        "records": a.run.origin,
        "points": a.points,
        "ok": a.ok,
        "bf16": ceilings.get("bf16"),
        "best": max(ceilings.values(), default=None),
        "memory": _constant(a, "dram_copy_bytes_per_s"),
        "gain": f"{times(gain[0])} {gain[1]}" if gain else None,
        "gain_ratio": gain[0] if gain else None,
        "mape": None if error is None else float(error["mape"]),
        "beyond": beyond if a.spec is not None else None,
    }


def _error(a: Analysis) -> "pd.Series[Any] | None":
    """Of the library's products, where the errors of several providers are told apart."""
    if a.errors.empty:
        return None
    known = providers_in(a.errors, "gemm")
    return error_of(a.errors, MODEL, provider=next((p for p in LIBRARIES if p in known), ALL))


def _ceilings(a: Analysis) -> dict[str, float]:
    """Calibrated ceiling by recipe, of its fastest provider."""
    if a.constants.empty:
        return {}
    rows = a.constants[a.constants["name"].str.endswith(".ceiling_flops_per_s")]
    by_recipe = rows["value"].groupby(rows["name"].str.split(".").str[-2]).max()
    return {str(recipe): float(value) for recipe, value in by_recipe.items()}


def _constant(a: Analysis, name: str) -> float | None:
    constants = a.run.calibration.constants if a.run.calibration else {}
    return constants[name].value if name in constants else None


def best_gain(a: Analysis) -> tuple[float, str] | None:
    """(ratio, recipe) of the highest median speed-up over large products, over all without any.

    The provider stands behind the recipe where there are several.
    """
    table = a.speedups.get("gemm")
    if table is None:
        return None
    rows = table[table["recipe"].isin(narrower("gemm"))]
    large = rows[rows["regime"] == "large"]
    some = large if len(large) else rows
    if some.empty:
        return None
    recipe, provider, gain = fastest(some)
    several = rows["provider"].nunique() > 1
    return gain, f"{recipe} ({provider})" if several else recipe
