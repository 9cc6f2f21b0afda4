"""How far outputs and gradients of float8 linears are from float64, beside their speed.

In decibels of signal to quantisation noise; 6 dB are one bit. Points that were timed count as well
as points that were measured for their accuracy alone: all of them have the error of each output.
"""

from collections.abc import Iterator, Sequence
from typing import Final, get_args

import pandas as pd

from roofcal.core.records import Distribution
from roofcal.ops.linear.spec import OP as LINEAR
from roofcal.ops.linear.spec import OUTPUTS, RECIPES, SUMMED, recipe
from roofcal.points.tables import sqnr_column
from roofcal.report.data import drawing
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.tidy import row_of_largest, shape_texts
from roofcal.report.kit import charts, styles
from roofcal.report.kit.blocks import Table, absence, paragraphs
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import count, decibels, keys_of, named, ratio, text
from roofcal.report.kit.numbers import TIMES, axis_text, count_of, shape_text, times
from roofcal.report.section import CsvTable, Item, Section, tidy_file

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
    *named("provider"),
    _DATA,
    *named("m", "n", "k"),
    *_DECIBELS,
)
ACCUMULATION: Final = (
    *named("product"),
    count("terms", "terms of a sum"),
    text("operands", "scales of its operands"),
    _DATA,
    *named("provider", "m", "n", "k"),
    decibels("fast_sqnr_db", "fast"),
    decibels("two_level_sqnr_db", "two-level"),
    decibels("lost_db", "lost by fast"),
)
SPEED: Final = (
    text("label", "recipe"),
    *named("provider", "m", "n", "k"),
    ratio("speedup", "speed against bf16"),
    *_DECIBELS,
)
_ONE_LINE: Final = 3.0  # dB, half a bit: dots closer than this lie on one line
_ROW_PX: Final = 24
_DOTS_PX: Final = 36  # of a row of dots
_MARKS: Final = dict(
    zip(OUTPUTS, ((styles.BLUE, "o"), (styles.VERMILLION, "s"), (styles.GREEN, "^")), strict=True)
)


def accuracy_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Points that were compared with float64, by recipe, with `label` and `data` for people.

    A point that was measured in several ways counts once, as it was measured for its accuracy.
    """
    if not set(SQNR) <= set(frame.columns):
        return frame.iloc[:0].assign(label=None, data=None, **dict.fromkeys(SQNR))
    rows = frame[(frame["status"] == "ok") & frame[list(SQNR)].notna().all(axis=1)]
    rows = rows[rows["distribution"].isin(DISTRIBUTIONS)]
    order = drawing.in_recipe_order(rows["recipe"], OP)
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
    for known in RECIPES:
        others = recipe(known).products
        if all((p.a, p.b) == (others[o].a, others[o].b) for o, p in products.items()):
            changed = [o for o, p in products.items() if p.summed != others[o].summed]
            where = "" if len(changed) == len(products) else f" in {' and '.join(changed)}"
            return f"{known}, two-level{where}"
    return name


def accumulation_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Products that were measured with both accumulations of equal casts; long sums come first.

    `lost_db` is what fast accumulation costs. Rows of EMULATED are left out.

    rows: those of `accuracy_rows`.
    """
    sums = [
        {name: row[name] for name in ("data", "provider", *_AXES)}
        | {"product": product, "terms": row[SUMMED[product]]}
        | {"operands": f"{formats.a} x {formats.b}", "summed": formats.summed}
        | {"sqnr": row[sqnr_column(product)]}
        for row in rows[rows["provider"] != EMULATED].to_dict("records")
        for product, formats in recipe(str(row["recipe"])).products.items()
        if formats.is_fp8
    ]
    keys = [name for name in keys_of(ACCUMULATION) if not name.endswith("_db")]
    every = pd.DataFrame(sums, columns=[*keys, "summed", "sqnr"])
    first = every.drop_duplicates([*keys, "summed"])
    fast, two_level = (
        first[first["summed"] == summed].drop(columns="summed").rename(columns={"sqnr": name})
        for summed, name in (("fast", "fast_sqnr_db"), ("two_level", "two_level_sqnr_db"))
    )
    order = every[keys].drop_duplicates()
    pairs = order.merge(fast, on=keys).merge(two_level, on=keys)
    pairs["lost_db"] = pairs["two_level_sqnr_db"] - pairs["fast_sqnr_db"]
    ordered = charts.in_order(pairs, product=OUTPUTS).sort_values(
        "terms", ascending=False, kind="stable"
    )
    return ordered.reset_index(drop=True)


def speed_and_accuracy(rows: pd.DataFrame, speedups: pd.DataFrame) -> pd.DataFrame:
    """SQNR on normal data of recipes that have a speed-up over bf16 at the same shape.

    Rows of EMULATED are left out. rows: those of `accuracy_rows`.
    """
    rows = rows[(rows["data"] == "normal") & (rows["provider"] != EMULATED)]
    keys = ["provider", "recipe", *_AXES]
    both = rows[[*keys, "label", *SQNR]].merge(speedups[[*keys, "speedup"]], on=keys)
    return both[[*keys_of(SPEED), "recipe"]]


def data_kinds(rows: pd.DataFrame) -> list[str]:
    """The kinds of data among the rows, mildest first."""
    present = set(rows["distribution"])
    return [name.replace("_", " ") for name in DISTRIBUTIONS if name in present]


def answer_sentences(rows: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[str]:
    """The range of SQNR of fp8 recipes by kind of data, and the cost of fast accumulation.

    Args:
        rows: those of `accuracy_rows`; the worst output of each counts.
        pairs: those of `accumulation_table`.
    """
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
    if pairs.empty:
        yield (
            "What fast accumulation costs was not measured here: that takes a GPU and the sweep "
            f"accumulation of op {OP} (study standard); {EMULATED} sums in fp32 either way."
        )
        return
    parts = []
    for terms, of_terms in pairs.groupby("terms", sort=False):
        losses = of_terms.groupby("product", sort=False)["lost_db"]
        products = [f"{_range_text(lost.tolist())} in {product}" for product, lost in losses]
        parts.append(f"over {int(str(terms)):,} terms {', '.join(products)}")
    data = " and ".join(dict.fromkeys(pairs["data"]))
    yield f"What fast accumulation costs against two-level, on {data} data: {'; '.join(parts)}."


def _range_text(values_db: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.1f}" for end in (min(values_db), max(values_db)))
    return f"{' to '.join(ends)} dB".replace("-", "\N{MINUS SIGN}")


def draw_matrix(rows: pd.DataFrame) -> Picture:
    """The lowest SQNR over all shapes, a panel per kind of data."""
    named = rows.assign(name=_row_names(rows))
    lowest = named.groupby(["data", "name"], sort=False)[list(SQNR)].min().reset_index()
    cells = _by_output(lowest, ["data", "name"])
    cells = cells.assign(
        label=[f"{value:.1f}" for value in cells["sqnr"]],
        **charts.cell_colours(cells["sqnr"], charts.DECIBELS),
    )
    names = list(dict.fromkeys(named["name"]))
    shapes = len(rows.drop_duplicates(["m", "n", "k"]))
    worst = row_of_largest(rows.assign(noise=-rows[list(SQNR)].min(axis=1)), "noise")
    column = min(SQNR, key=lambda name: float(worst[name]))
    return Picture(
        key="linear_accuracy",
        op=OP,
        x=charts.Axis("output", "", "names", order=OUTPUTS),
        y=charts.Axis("name", "", "names", order=names),
        layers=[charts.Layer("cells", detail="label")],
        tables={"points": cells},
        panels=_panels(rows, 40 + _ROW_PX * len(names)),
        tips=charts.text_tips(name="recipe", output="product", label="lowest, dB"),
        alt="SQNR in dB by recipe, kind of data and product.",
        facts=f"{count_of(len(rows), 'point')} of {count_of(shapes, 'shape')}; lowest: "
        f"{worst[column]:.1f} dB in {column.removesuffix('_sqnr_db')} of {worst['label']} by "
        f"{worst['provider']}, {worst['data']} data, {axis_text(worst)}.",
    )


def _row_names(rows: pd.DataFrame) -> list[str]:
    """Recipe of each row, and its provider if the recipe has several."""
    several = rows.groupby("recipe")["provider"].transform("nunique") > 1
    return [
        f"{label} ({provider})" if more else str(label)
        for label, provider, more in zip(rows["label"], rows["provider"], several, strict=True)
    ]


def _by_output(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """A row per output: `output`, and its decibels as `sqnr`."""
    long = rows.rename(columns=dict(zip(SQNR, OUTPUTS, strict=True)))
    return long.melt([*keys], list(OUTPUTS), "output", "sqnr")


def _panels(rows: pd.DataFrame, height: int) -> list[charts.Panel]:
    """One per kind of data."""
    return [
        charts.Panel(title=kind, where={"data": kind}, height=height) for kind in data_kinds(rows)
    ]


def draw_dots(rows: pd.DataFrame) -> Picture:
    """A dot per shape and product, a panel per kind of data."""
    named = rows.assign(name=_row_names(rows), shape=shape_texts(rows))
    names = list(dict.fromkeys(named["name"]))
    points = _by_output(named, ["data", "name", "shape", "point_id"])
    colours, markers = zip(*points["output"].map(_MARKS), strict=True)
    places = points["output"].map(OUTPUTS.index)
    points = points.assign(place=places, colour=list(colours), marker=list(markers))
    # How far the shapes of one recipe, kind of data and product lie apart at most
    keys = ["label", "provider", "data"]
    long = rows.melt([*keys], list(SQNR), "product", "sqnr")
    ends = long.groupby([*keys, "product"], sort=False)["sqnr"].agg(["min", "max"]).reset_index()
    widest = row_of_largest(ends.assign(apart=ends["max"] - ends["min"]), "apart")
    return Picture(
        key="linear_accuracy_by_shape",
        op=OP,
        x=charts.Axis("sqnr", "SQNR", "plain", " dB"),
        y=charts.Axis("name", "", "names", order=names, offset="place"),
        layers=[charts.Layer("dots", size=34)],
        tables={"points": points},
        panels=_panels(rows, 40 + _DOTS_PX * len(names)),
        tips=(
            *charts.text_tips(name="recipe", output="product", shape="shape"),
            charts.Tip("sqnr", "SQNR", "si", "dB"),
        ),
        legend=charts.marked("output", _MARKS),
        alt="Dots of SQNR by recipe, kind of data and product, one per shape.",
        facts=f"{count_of(len(rows), 'point')}; shapes lie furthest apart in "
        f"{widest['product'].removesuffix('_sqnr_db')} of {widest['label']} on {widest['data']} "
        f"data: {widest['min']:.1f} to {widest['max']:.1f} dB.",
    )


def spread_db(table: pd.DataFrame, column: str) -> float:
    """How far the decibels of a column lie apart; 0 without any."""
    values = table[column].dropna()
    return float(values.max() - values.min()) if len(values) else 0.0


def equal_accuracy_text(table: pd.DataFrame) -> str:
    """A sentence on products in which recipes are equally accurate; "" without any."""
    parts = [
        f"{output} ({table[column].min():.1f} to {table[column].max():.1f} dB)"
        for output, column in zip(OUTPUTS, SQNR, strict=True)
        if spread_db(table, column) < _ONE_LINE
    ]
    if not parts:
        return ""
    return (
        f"Recipes timed beside bf16 lie within half a bit of one another in {' and '.join(parts)}."
    )


def draw_speed(table: pd.DataFrame) -> Picture | None:
    """SQNR against speed-up, a panel per product and a dot per shape.

    Products whose dots would lie on one line have no panel. None with no panel.
    """
    panels = {o: c for o, c in zip(OUTPUTS, SQNR, strict=True) if spread_db(table, c) >= _ONE_LINE}
    if not panels:
        return None
    points = table.assign(
        shape=[shape_text(sizes) for sizes in table[list(_AXES)].to_numpy()],
        colour=[drawing.recipe_colour(str(name)) for name in table["recipe"]],
        marker=[drawing.provider_marker(str(name)) for name in table["provider"]],
    )
    labels = dict(zip(table["recipe"], table["label"], strict=True))
    best = row_of_largest(table, "speedup")
    return Picture(
        key="linear_accuracy_and_speed",
        op=OP,
        source=SPEED_FILE,
        x=charts.Axis("speedup", "speed against bf16", "plain", TIMES),
        y=charts.Axis("sqnr", "SQNR", "plain", " dB"),
        layers=[charts.Layer("upright", table="equal"), charts.Layer("dots")],
        tables={"points": points, "equal": charts.line_at(1.0, "speedup", styles.MUTED)},
        panels=[
            charts.Panel(title=name, fields={"sqnr": column}) for name, column in panels.items()
        ],
        tips=(
            *charts.text_tips(shape="shape", label="recipe", provider="provider"),
            charts.Tip("speedup", "speed-up", "ratio"),
            charts.Tip("sqnr", "SQNR", "si", "dB"),
        ),
        legend=[
            *charts.swatches(
                "label", {label: drawing.recipe_colour(name) for name, label in labels.items()}
            ),
            *drawing.provider_legend(table["provider"]),
        ],
        alt="SQNR of output and gradients against speed-up over bf16.",
        facts=f"{count_of(len(table), 'ratio')} on normal data; the fastest is {best['label']} by "
        f"{best['provider']} at {axis_text(best)}: {times(float(best['speedup']))} with "
        f"{best[list(SQNR)].min():.1f} dB in its worst output.",
    )


def show(analysis: Analysis) -> Iterator[Item]:
    """Accuracy by recipe and kind of data, by accumulation, and beside speed."""
    frame = analysis.frames.get(OP, pd.DataFrame())
    rows = accuracy_rows(frame) if len(frame) else frame
    if rows.empty:
        yield absence(NOT_MEASURED)
        return
    pairs, speed = accumulation_table(rows), speed_and_accuracy(rows, analysis.speedups[OP])
    yield from paragraphs(answer_sentences(rows, pairs))
    yield draw_matrix(rows)
    yield draw_dots(rows)
    if len(pairs):
        yield CsvTable(ACCUMULATION_FILE, pairs)
    name = "Fast against two-level accumulation"
    yield Table("linear-accumulation", name, pairs, ACCUMULATION, ACCUMULATION_FILE)
    if speed.empty:
        yield absence(NO_SPEED)
    else:
        yield CsvTable(SPEED_FILE, speed)
        yield from paragraphs(filter(None, [equal_accuracy_text(speed)]))
        yield draw_speed(speed)
    name = "Signal to quantisation noise of every point"
    yield Table("linear-accuracy-points", name, rows, ACCURACY, tidy_file(analysis, OP))


SECTION = Section("Accuracy of float8 linears", "recipe", show)
