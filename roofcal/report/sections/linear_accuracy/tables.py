"""Accuracy of float8 linears: how far outputs and gradients are from float64, beside their speed.

In decibels of signal to quantisation noise; 6 dB are one bit. A point counts whether it was timed
or not: both say how far each output was from the reference.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

import pandas as pd

from roofcal.core.records import Distribution
from roofcal.ops.linear.spec import OP as LINEAR
from roofcal.ops.linear.spec import OUTPUTS, RECIPES, SUMMED, recipe
from roofcal.report.data.tidy import sqnr_column
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.columns import count, decibels, ratio, text
from roofcal.report.kit.styles import by_recipe_order

OP: Final = LINEAR.name
DISTRIBUTIONS: Final = tuple(name for name in get_args(Distribution) if name != "zeros")
SQNR: Final = tuple(sqnr_column(name) for name in OUTPUTS)
# Computes the values of fp8 kernels with sums in fp32: its speed says nothing about fp8, and fast
# and two-level accumulation are one.
EMULATED: Final = "torch_cpu"
ACCUMULATION_SOURCE: Final = "linear_accumulation.csv"
SPEED_SOURCE: Final = "linear_speed_and_accuracy.csv"
_SIZES: Final = ("m", "n", "k")

NOT_MEASURED: Final = (
    f"The accuracy of float8 linears was not measured here; `snakemake --cores all --config "
    f"study=standard 'ops=[{OP}]'` does."
)
NO_SPEED: Final = (
    f"No float8 linear was timed beside bf16 here: that takes a GPU and op {OP} of study standard."
)

ACCURACY: Final[tuple[Column, ...]] = (
    text("label", "recipe"),
    text("provider", "provider"),
    text("data", "data", about="distribution of x, w and grad_out"),
    *(count(axis, axis) for axis in _SIZES),
    *(decibels(name) for name in SQNR),
)
ACCUMULATION: Final[tuple[Column, ...]] = (
    text("product", "product"),
    count("terms", "terms of a sum"),
    text("operands", "scales of its operands"),
    text("data", "data", about="distribution of x, w and grad_out"),
    text("provider", "provider"),
    *(count(axis, axis) for axis in _SIZES),
    decibels("fast_sqnr_db", "fast"),
    decibels("two_level_sqnr_db", "two-level"),
    decibels("lost_db", "lost by fast"),
)
SPEED: Final[tuple[Column, ...]] = (
    text("label", "recipe"),
    text("provider", "provider"),
    *(count(axis, axis) for axis in _SIZES),
    ratio("speedup", "speed against bf16"),
    *(decibels(name) for name in SQNR),
)


def measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Points whose outputs were held against float64, by recipe, with `label` and `data` to read.

    One that was measured in several ways counts once, as it was measured for its accuracy.
    """
    if not set(SQNR) <= set(frame.columns):
        return frame.iloc[:0].assign(label=None, data=None, **dict.fromkeys(SQNR))
    rows = frame[(frame["status"] == "ok") & frame[list(SQNR)].notna().all(axis=1)]
    rows = rows[rows["distribution"].isin(DISTRIBUTIONS)]
    order = by_recipe_order(list(dict.fromkeys(rows["recipe"])), OP)
    ranked = rows.assign(
        rank=[order.index(name) for name in rows["recipe"]],
        kind=[DISTRIBUTIONS.index(name) for name in rows["distribution"]],
        timed=rows["method"] != "accuracy",
        label=[recipe_label(str(name)) for name in rows["recipe"]],
        data=rows["distribution"].str.replace("_", " "),
    )
    keys = ["rank", "provider", "kind", *_SIZES]
    ordered = ranked.sort_values([*keys, "timed"], kind="stable").drop_duplicates(keys)
    return ordered.drop(columns=["rank", "kind", "timed"]).reset_index(drop=True)


def recipe_label(name: str) -> str:
    """What people read for a recipe: its name, or what its line has beside a named one."""
    if name in RECIPES:
        return name
    products = recipe(name).products
    for known in RECIPES:
        others = recipe(known).products
        if all((p.a, p.b) == (others[o].a, others[o].b) for o, p in products.items()):
            changed = [o for o, p in products.items() if p.summed != others[o].summed]
            where = "" if len(changed) == len(products) else f" in {' and '.join(changed)}"
            return f"{known}, two-level{where}"
    return name


def accumulation(frame: pd.DataFrame) -> pd.DataFrame:
    """Products that were measured with both accumulations of equal casts; long sums come first.

    `lost_db` is what fast accumulation costs. Rows of EMULATED are left out.
    """
    rows = measured(frame)
    rows = rows[rows["provider"] != EMULATED]
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows.to_dict("records"):
        for product, made in recipe(str(row["recipe"])).products.items():
            sizes = [int(row[axis]) for axis in _SIZES]
            key = (product, f"{made.a} x {made.b}", row["data"], row["provider"], *sizes)
            if made.is_fp8:
                found.setdefault(key, {}).setdefault(made.summed, row[sqnr_column(product)])
    pairs = [_pair(key, by) for key, by in found.items() if len(by) == 2]
    table = pd.DataFrame(pairs, columns=[column.key for column in ACCUMULATION])
    place = table["product"].map(OUTPUTS.index)
    ordered = table.assign(place=place, short=-table["terms"]).sort_values(
        ["short", "place"], kind="stable"
    )
    return ordered.drop(columns=["place", "short"]).reset_index(drop=True)


def _pair(key: tuple[Any, ...], by: dict[str, float]) -> dict[str, Any]:
    product, operands, data, provider, *sizes = key
    shape = dict(zip(_SIZES, sizes, strict=True))
    return {
        "product": product,
        "terms": shape[SUMMED[product]],
        "operands": operands,
        "data": data,
        "provider": provider,
        **shape,
        "fast_sqnr_db": by["fast"],
        "two_level_sqnr_db": by["two_level"],
        "lost_db": by["two_level"] - by["fast"],
    }


def beside_speed(frame: pd.DataFrame, speedups: pd.DataFrame) -> pd.DataFrame:
    """SQNR on normal data of recipes that have a speed-up over bf16 at the same shape.

    Rows of EMULATED are left out.
    """
    rows = measured(frame)
    rows = rows[(rows["data"] == "normal") & (rows["provider"] != EMULATED)]
    keys = ["provider", "recipe", *_SIZES]
    both = rows[[*keys, "label", *SQNR]].merge(speedups[[*keys, "speedup"]], on=keys)
    return both[[column.key for column in SPEED] + ["recipe"]]


def kinds_of(rows: pd.DataFrame) -> list[str]:
    """The kinds of data among `measured` rows, mildest first."""
    found = set(rows["distribution"])
    return [name.replace("_", " ") for name in DISTRIBUTIONS if name in found]


def answer(rows: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What data cost which recipe, and what fast accumulation costs which products."""
    return [*_of_data(rows), _of_accumulation(pairs)]


def _of_data(rows: pd.DataFrame) -> Iterator[str]:
    """From which to which SQNR the recipes in fp8 have in the worst of their outputs, by data."""
    narrow = [any(p.is_fp8 for p in recipe(str(r)).products.values()) for r in rows["recipe"]]
    worst = rows.assign(worst=rows[list(SQNR)].min(axis=1))
    fp8, plain = worst[narrow], worst[[not is_fp8 for is_fp8 in narrow]]
    said = []
    for data in kinds_of(fp8):
        lowest = fp8[fp8["data"] == data].groupby(["label", "provider"])["worst"].min()
        said.append(f"{_range(lowest.tolist())} on {data} data")
    beside = f"; bf16 has {_range([plain['worst'].min()])}" if len(plain) else ""
    if said:
        yield (
            "In the worst of output, grad_input and grad_weight over all shapes, recipes in fp8 "
            f"have {', '.join(said)}{beside}."
        )


def _of_accumulation(pairs: pd.DataFrame) -> str:
    if pairs.empty:
        return (
            "What fast accumulation costs was not measured here: that takes a GPU and the sweep "
            f"accumulation of op {OP} (study standard); {EMULATED} sums in fp32 either way."
        )
    said = []
    for terms, some in pairs.groupby("terms", sort=False):
        by_product = some.groupby("product", sort=False)["lost_db"]
        parts = [f"{_range(lost.tolist())} in {product}" for product, lost in by_product]
        said.append(f"over {int(str(terms)):,} terms {', '.join(parts)}")
    data = " and ".join(dict.fromkeys(pairs["data"]))
    return f"What fast accumulation costs against two-level, on {data} data: {'; '.join(said)}."


def _range(values_db: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(values_db), max(values_db)))
    return f"{' to '.join(ends)} dB".replace("-", "\N{MINUS SIGN}")
