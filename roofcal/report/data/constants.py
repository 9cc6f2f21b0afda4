"""The calibrated constants of a device as a table: value, interval, datasheet value, fraction."""

from typing import Any, Final

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Calibration, Ceiling
from roofcal.ops.constants import family_of_constant
from roofcal.ops.declarations import Constant
from roofcal.report.data.op_pages import constant_ranks, constant_texts

COLUMNS: Final = (
    *("group", "name", "label", "value", "ci95_low", "ci95_high", "unit", "datasheet"),
    *("fraction", "choice", "evidence", "headline"),
)
DEVICE_GROUP: Final = "device"


def constants_table(calibration: Calibration, spec: DeviceSpec | None) -> pd.DataFrame:
    """One row per constant, those of the device first, then by provider and recipe.

    datasheet and fraction (value / datasheet) are empty for constants that the datasheet does not
    have, and without a datasheet. `choice` is what a constant of unit "code" stands for.
    """
    rows = [_row(name, constant, spec) for name, constant in calibration.constants.items()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    order = constant_ranks()
    is_of_op = table["group"] != DEVICE_GROUP
    rank = [order.get(str(name).rpartition(".")[2], len(order)) for name in table["name"]]
    ordered = table.assign(_is_of_op=is_of_op, _rank=rank).sort_values(
        ["_is_of_op", "group", "_rank", "name"], kind="stable"
    )
    return ordered[list(COLUMNS)].reset_index(drop=True)


def _row(name: str, constant: Ceiling, spec: DeviceSpec | None) -> dict[str, Any]:
    """A constant `<prefix>.<provider>.<recipe>.<constant>`; those of the device are one word."""
    head, _, last = name.rpartition(".")
    prefix, *group = head.split(".")
    text = constant_texts(prefix).get(last) or Constant(last, constant.unit, last.replace("_", " "))
    datasheet = _datasheet(text.datasheet, group[-1] if group else "", spec)
    return {
        "group": " ".join(group) or DEVICE_GROUP,
        "name": name,
        "label": text.label,
        "value": constant.value,
        "ci95_low": constant.ci95_low,
        "ci95_high": constant.ci95_high,
        "unit": constant.unit,
        "datasheet": datasheet,
        "fraction": constant.value / datasheet if datasheet else None,
        "choice": family_of_constant(name, constant),
        "evidence": constant.evidence,
        "headline": text.headline,
    }


def _datasheet(figure: str | None, recipe: str, spec: DeviceSpec | None) -> float | None:
    """A figure of the datasheet, in the unit of the constant."""
    if spec is None or figure is None:
        return None
    if figure != "peak":
        return float(getattr(spec, figure))
    product = GEMM_RECIPES.get(recipe)
    return spec.peak_flops_per_s.get(product.math_dtype) if product else None
