"""Accuracy of float8 linears: how far outputs and gradients are from float64, beside their speed.

In decibels of signal to quantisation noise; 6 dB are one bit. Points that were timed count as well
as points that were measured for their accuracy alone: all of them have the error of each output.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args

import pandas as pd

from roofcal.core.records import Distribution
from roofcal.ops.linear.spec import OP as LINEAR
from roofcal.ops.linear.spec import OUTPUTS, RECIPES, SUMMED, recipe
from roofcal.points.tables import sqnr_column
from roofcal.report.data.drawing import in_recipe_order
from roofcal.report.kit.columns import SIZES, count, decibels, ratio, text

OP: Final = LINEAR.name
DISTRIBUTIONS: Final = tuple(name for name in get_args(Distribution) if name != "zeros")
SQNR: Final = tuple(sqnr_column(name) for name in OUTPUTS)
# This provider computes the values of fp8 kernels with sums in fp32: its speed says nothing about
# fp8, and its fast and two-level accumulation are the same.
EMULATED: Final = "torch_cpu"
ACCUMULATION_FILE: Final = "linear_accumulation.csv"
SPEED_FILE: Final = "linear_speed_and_accuracy.csv"
_AXES: Final = tuple(LINEAR.axes)

NOT_MEASURED: Final = (
    f"The accuracy of float8 linears was not measured here; `snakemake --cores all --config "
    f"study=standard 'ops=[{OP}]'` does."
)
NO_SPEED: Final = (
    f"No float8 linear was timed beside bf16 here: that takes a GPU and op {OP} of study standard."
)

_DATA: Final = text("data", "data", about="distribution of x, w and grad_out")
_DECIBELS: Final = tuple(decibels(name) for name in SQNR)
ACCURACY: Final = (
    text("label", "recipe"),
    text("provider", "provider"),
    _DATA,
    *SIZES,
    *_DECIBELS,
)
ACCUMULATION: Final = (
    text("product", "product"),
    count("terms", "terms of a sum"),
    text("operands", "scales of its operands"),
    _DATA,
    text("provider", "provider"),
    *SIZES,
    decibels("fast_sqnr_db", "fast"),
    decibels("two_level_sqnr_db", "two-level"),
    decibels("lost_db", "lost by fast"),
)
SPEED: Final = (
    text("label", "recipe"),
    text("provider", "provider"),
    *SIZES,
    ratio("speedup", "speed against bf16"),
    *_DECIBELS,
)


def accuracy_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Points that were compared with float64, by recipe, with `label` and `data` for people.

    A point that was measured in several ways counts once, as it was measured for its accuracy.
    """
    if not set(SQNR) <= set(frame.columns):
        return frame.iloc[:0].assign(label=None, data=None, **dict.fromkeys(SQNR))
    rows = frame[(frame["status"] == "ok") & frame[list(SQNR)].notna().all(axis=1)]
    rows = rows[rows["distribution"].isin(DISTRIBUTIONS)]
    order = in_recipe_order(rows["recipe"], OP)
    ranked = rows.assign(
        recipe_rank=[order.index(name) for name in rows["recipe"]],
        data_rank=[DISTRIBUTIONS.index(name) for name in rows["distribution"]],
        timed=rows["method"] != "accuracy",
        label=[recipe_label(str(name)) for name in rows["recipe"]],
        data=rows["distribution"].str.replace("_", " "),
    )
    keys = ["recipe_rank", "provider", "data_rank", *_AXES]
    ordered = ranked.sort_values([*keys, "timed"], kind="stable").drop_duplicates(keys)
    return ordered.drop(columns=["recipe_rank", "data_rank", "timed"]).reset_index(drop=True)


def recipe_label(name: str) -> str:
    """What people read for a recipe that was written down: how it differs from a named one.

    A named recipe has its name, and one that resembles none has its text.
    """
    if name in RECIPES:
        return name
    products = recipe(name).products
    for named in RECIPES:
        others = recipe(named).products
        if all((p.a, p.b) == (others[o].a, others[o].b) for o, p in products.items()):
            changed = [o for o, p in products.items() if p.summed != others[o].summed]
            where = "" if len(changed) == len(products) else f" in {' and '.join(changed)}"
            return f"{named}, two-level{where}"
    return name


def accumulation_table(frame: pd.DataFrame) -> pd.DataFrame:
    """Products that were measured with both accumulations of equal casts; long sums come first.

    `lost_db` is what fast accumulation costs. Rows of EMULATED are left out.
    """
    rows = accuracy_rows(frame)
    rows = rows[rows["provider"] != EMULATED]
    by_accumulation: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows.to_dict("records"):
        for product, formats in recipe(str(row["recipe"])).products.items():
            sizes = [int(row[axis]) for axis in _AXES]
            operands = f"{formats.a} x {formats.b}"
            key = (product, operands, row["data"], row["provider"], *sizes)
            if formats.is_fp8:
                decibels_of_key = by_accumulation.setdefault(key, {})
                decibels_of_key.setdefault(formats.summed, row[sqnr_column(product)])
    pairs = [_pair(key, both) for key, both in by_accumulation.items() if len(both) == 2]
    table = pd.DataFrame(pairs, columns=[column.key for column in ACCUMULATION])
    ranked = table.assign(rank=table["product"].map(OUTPUTS.index), short=-table["terms"])
    ordered = ranked.sort_values(["short", "rank"], kind="stable")
    return ordered.drop(columns=["rank", "short"]).reset_index(drop=True)


def _pair(key: tuple[Any, ...], sqnr_db: dict[str, float]) -> dict[str, Any]:
    product, operands, data, provider, *sizes = key
    shape = dict(zip(_AXES, sizes, strict=True))
    return {
        "product": product,
        "terms": shape[SUMMED[product]],
        "operands": operands,
        "data": data,
        "provider": provider,
        **shape,
        "fast_sqnr_db": sqnr_db["fast"],
        "two_level_sqnr_db": sqnr_db["two_level"],
        "lost_db": sqnr_db["two_level"] - sqnr_db["fast"],
    }


def speed_and_accuracy(frame: pd.DataFrame, speedups: pd.DataFrame) -> pd.DataFrame:
    """SQNR on normal data of recipes that have a speed-up over bf16 at the same shape.

    Rows of EMULATED are left out.
    """
    rows = accuracy_rows(frame)
    rows = rows[(rows["data"] == "normal") & (rows["provider"] != EMULATED)]
    keys = ["provider", "recipe", *_AXES]
    both = rows[[*keys, "label", *SQNR]].merge(speedups[[*keys, "speedup"]], on=keys)
    return both[[column.key for column in SPEED] + ["recipe"]]


def data_kinds(rows: pd.DataFrame) -> list[str]:
    """The kinds of data among the rows, mildest first."""
    present = set(rows["distribution"])
    return [name.replace("_", " ") for name in DISTRIBUTIONS if name in present]


def answer_sentences(rows: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What data cost which recipe, and what fast accumulation costs which products.

    Args:
        rows: those of `accuracy_rows`.
        pairs: those of `accumulation_table`.
    """
    return [*_data_sentences(rows), _accumulation_sentence(pairs)]


def _data_sentences(rows: pd.DataFrame) -> Iterator[str]:
    """By kind of data, the range of SQNR of fp8 recipes, each in the worst of its outputs."""
    is_fp8 = [any(p.is_fp8 for p in recipe(str(r)).products.values()) for r in rows["recipe"]]
    worst = rows.assign(worst=rows[list(SQNR)].min(axis=1))
    fp8, plain = worst[is_fp8], worst[[not narrow for narrow in is_fp8]]
    parts = []
    for data in data_kinds(fp8):
        lowest = fp8[fp8["data"] == data].groupby(["label", "provider"])["worst"].min()
        parts.append(f"{_range_text(lowest.tolist())} on {data} data")
    beside = f"; bf16 has {_range_text([plain['worst'].min()])}" if len(plain) else ""
    if parts:
        yield (
            "In the worst of output, grad_input and grad_weight over all shapes, recipes in fp8 "
            f"have {', '.join(parts)}{beside}."
        )


def _accumulation_sentence(pairs: pd.DataFrame) -> str:
    if pairs.empty:
        return (
            "What fast accumulation costs was not measured here: that takes a GPU and the sweep "
            f"accumulation of op {OP} (study standard); {EMULATED} sums in fp32 either way."
        )
    parts = []
    for terms, rows in pairs.groupby("terms", sort=False):
        losses = rows.groupby("product", sort=False)["lost_db"]
        products = [f"{_range_text(lost.tolist())} in {product}" for product, lost in losses]
        parts.append(f"over {int(str(terms)):,} terms {', '.join(products)}")
    data = " and ".join(dict.fromkeys(pairs["data"]))
    return f"What fast accumulation costs against two-level, on {data} data: {'; '.join(parts)}."


def _range_text(values_db: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(values_db), max(values_db)))
    return f"{' to '.join(ends)} dB".replace("-", "\N{MINUS SIGN}")
