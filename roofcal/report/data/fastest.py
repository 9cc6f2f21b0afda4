"""The fastest products of a run: one definition for README, report, site and claims.

They are chosen among all products that were timed alone on one device as the study does, those of
the study and those of the probes, by any provider.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from roofcal.core.records import Ceiling
from roofcal.ops import OPS
from roofcal.report.data.op_pages import headline_op
from roofcal.report.data.tidy import row_of_largest, shape_texts, standard_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FastestProduct:
    """The product of a recipe with the highest settled rate, and with the highest first turn.

    rate         of the settled one, FLOP/s, with the 95 % interval of its time
    burst        rate of the fastest first turn, FLOP/s, of a shape of its own; None without any
    """

    recipe: str
    provider: str
    shape: str
    rate: Ceiling
    burst: float | None
    burst_shape: str


def ops_of_products(op: str) -> list[str]:
    """An op and the probes that calibrate it: all of its measured points."""
    return [spec.name for spec in OPS if spec.folder == op]


def fastest_products(frames: Mapping[str, pd.DataFrame]) -> dict[str, FastestProduct]:
    """Recipe -> its fastest product, the fastest recipe first.

    frames: op -> its tidy frame, or the table that was made of it.
    """
    names = [name for name in ops_of_products(headline_op()) if name in frames]
    parts = [standard_rows(frames[name]) for name in names]
    parts = [part[part["world_size"] == 1].assign(shape=shape_texts(part)) for part in parts]
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if rows.empty:
        return {}
    rows = rows.assign(burst=rows["flops"] / rows["burst_median_s"])
    products = [_fastest_of_recipe(str(name), group) for name, group in rows.groupby("recipe")]
    products.sort(key=lambda product: -product.rate.value)
    return {product.recipe: product for product in products}


def _fastest_of_recipe(recipe: str, rows: pd.DataFrame) -> FastestProduct:
    row = row_of_largest(rows, "achieved_flops_per_s")
    has_burst = bool(rows["burst"].notna().any())
    first = row_of_largest(rows, "burst") if has_burst else row
    provider, shape = str(row["provider"]), str(row["shape"])
    return FastestProduct(
        recipe=recipe,
        provider=provider,
        shape=shape,
        rate=Ceiling(
            value=float(row["achieved_flops_per_s"]),
            ci95_low=float(row["flops"] / row["ci95_high_s"]),
            ci95_high=float(row["flops"] / row["ci95_low_s"]),
            unit="flop/s",
            evidence=f"{provider}, {shape}",
        ),
        burst=float(first["burst"]) if has_burst else None,
        burst_shape=str(first["shape"]),
    )
