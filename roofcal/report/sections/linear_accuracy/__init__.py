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
from roofcal.report.kit import charts
from roofcal.report.kit.blocks import Prose, Table, absence, paragraphs
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.columns import count, decibels, keys_of, named, ratio, text
from roofcal.report.kit.numbers import TIMES, axis_text, count_of, times
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
    zip(OUTPUTS, ((charts.BLUE, "o"), (charts.VERMILLION, "s"), (charts.GREEN, "^")), strict=True)
)


def show(analysis: Analysis) -> Iterator[Item]:
    """Accuracy by recipe and kind of data, by accumulation, and beside speed."""
    frame = analysis.frames.get(OP, pd.DataFrame())
    rows = accuracy_rows(frame) if set(SQNR) <= set(frame.columns) else pd.DataFrame()
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
        yield from items_of_speed(speed)
    name = "Signal to quantisation noise of every point"
    yield Table("linear-accuracy-points", name, rows, ACCURACY, tidy_file(analysis, OP))


def accuracy_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Points that were compared with float64, by recipe, with `label` and `data` for people.

    A point that was measured in several ways counts once, as it was measured for its accuracy. Its
    `name` is the label, and its provider if the recipe has several.
    """
    rows = frame[(frame["status"] == "ok") & frame[list(SQNR)].notna().all(axis=1)]
    rows = rows[rows["distribution"].isin(DISTRIBUTIONS)]
    for_accuracy_first = rows.assign(timed=rows["method"] != "accuracy").sort_values("timed")
    keys = ["recipe", "provider", "distribution", *_AXES]
    rows = rows.loc[for_accuracy_first.drop_duplicates(keys).index].sort_values(list(_AXES))
    rows = charts.in_order(rows, distribution=DISTRIBUTIONS).sort_values("provider", kind="stable")
    rows = charts.in_order(rows, recipe=drawing.in_recipe_order(rows["recipe"], OP))
    rows = rows.assign(
        label=rows["recipe"].map(recipe_label),
        data=rows["distribution"].str.replace("_", " "),
        shape=shape_texts(rows),
    )
    several = rows.groupby("recipe")["provider"].transform("nunique") > 1
    names = rows["label"].where(~several, rows["label"] + " (" + rows["provider"] + ")")
    return rows.assign(name=names).reset_index(drop=True)


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
        | {"operands": f"{formats.a} x {formats.b}"}
        | {f"{formats.summed}_sqnr_db": row[sqnr_column(product)]}
        for row in rows[rows["provider"] != EMULATED].to_dict("records")
        for product, formats in recipe(str(row["recipe"])).products.items()
        if formats.is_fp8
    ]
    keys = [name for name in keys_of(ACCUMULATION) if not name.endswith("_db")]
    every = pd.DataFrame(sums, columns=keys_of(ACCUMULATION))
    # the first of each product and accumulation
    pairs = every.groupby(keys, sort=False, as_index=False).first()
    pairs = pairs.dropna(subset=["fast_sqnr_db", "two_level_sqnr_db"])
    pairs["lost_db"] = pairs["two_level_sqnr_db"] - pairs["fast_sqnr_db"]
    ordered = charts.in_order(pairs, product=OUTPUTS)
    return ordered.sort_values("terms", ascending=False, kind="stable", ignore_index=True)


def speed_and_accuracy(rows: pd.DataFrame, speedups: pd.DataFrame) -> pd.DataFrame:
    """SQNR on normal data of recipes that have a speed-up over bf16 at the same shape.

    Rows of EMULATED are left out. rows: those of `accuracy_rows`.
    """
    rows = rows[(rows["data"] == "normal") & (rows["provider"] != EMULATED)]
    keys = ["provider", "recipe", *_AXES]
    both = rows[[*keys, "label", *SQNR]].merge(speedups[[*keys, "speedup"]], on=keys)
    return both[[*keys_of(SPEED), "recipe"]]


def answer_sentences(rows: pd.DataFrame, pairs: pd.DataFrame) -> Iterator[str]:
    """The range of SQNR of fp8 recipes by kind of data, and the cost of fast accumulation.

    Args:
        rows: those of `accuracy_rows`; the worst output of each counts.
        pairs: those of `accumulation_table`.
    """
    is_fp8 = [any(p.is_fp8 for p in recipe(str(r)).products.values()) for r in rows["recipe"]]
    worst = rows.assign(worst=rows[list(SQNR)].min(axis=1), is_fp8=is_fp8)
    worst = charts.in_order(worst, distribution=DISTRIBUTIONS)
    fp8, plain = worst[worst["is_fp8"]], worst[~worst["is_fp8"]]
    parts = []
    for data, own in fp8.groupby("data", sort=False):
        lowest = own.groupby(["label", "provider"])["worst"].min()
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
    lowest = rows.groupby(["data", "name"], sort=False)[list(SQNR)].min().reset_index()
    cells = _by_output(lowest, ["data", "name"])
    cells = cells.assign(
        label=[f"{value:.1f}" for value in cells["sqnr"]],
        **charts.cell_colours(cells["sqnr"], charts.DECIBELS),
    )
    names = list(dict.fromkeys(rows["name"]))
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


def _by_output(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """A row per output: `output`, and its decibels as `sqnr`."""
    long = rows.rename(columns=dict(zip(SQNR, OUTPUTS, strict=True)))
    return long.melt([*keys], list(OUTPUTS), "output", "sqnr")


def _panels(rows: pd.DataFrame, height: int) -> list[charts.Panel]:
    """One per kind of data, mildest first."""
    return charts.facets(charts.in_order(rows, distribution=DISTRIBUTIONS), "data", height)


def draw_dots(rows: pd.DataFrame) -> Picture:
    """A dot per shape and product, a panel per kind of data."""
    names = list(dict.fromkeys(rows["name"]))
    points = _by_output(rows, ["data", "name", "shape", "point_id"])
    places = points["output"].map(OUTPUTS.index)
    points = points.assign(place=places, **charts.mark_columns(points["output"], _MARKS))
    # How far the shapes of one recipe, kind of data and product lie apart at most
    keys = ["label", "provider", "data"]
    by_output = _by_output(rows, keys).groupby([*keys, "output"], sort=False)["sqnr"]
    ends = by_output.agg(["min", "max"]).reset_index()
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
        f"{widest['output']} of {widest['label']} on {widest['data']} "
        f"data: {widest['min']:.1f} to {widest['max']:.1f} dB.",
    )


def items_of_speed(table: pd.DataFrame) -> Iterator[Item]:
    """SQNR against speed-up, a panel per product and a dot per shape.

    Products whose dots would lie on one line are a sentence instead.
    """
    lows, highs = table[list(SQNR)].min(), table[list(SQNR)].max()
    is_line = highs - lows < _ONE_LINE
    on_lines = [
        f"{output} ({lows[column]:.1f} to {highs[column]:.1f} dB)"
        for output, column in zip(OUTPUTS, SQNR, strict=True)
        if is_line[column]
    ]
    if on_lines:
        yield Prose(
            text="Recipes timed beside bf16 lie within half a bit of one another in "
            f"{' and '.join(on_lines)}."
        )
    if is_line.all():
        return
    points = drawing.with_marks(table.assign(shape=shape_texts(table, _AXES)))
    colours = {
        label: drawing.recipe_colour(name)
        for name, label in zip(table["recipe"], table["label"], strict=True)
    }
    best = row_of_largest(table, "speedup")
    yield Picture(
        key="linear_accuracy_and_speed",
        op=OP,
        source=SPEED_FILE,
        x=charts.Axis("speedup", "speed against bf16, with casts", "plain", TIMES),
        y=charts.Axis("sqnr", "SQNR", "plain", " dB"),
        layers=[charts.Layer("upright", table="equal"), charts.Layer("dots")],
        tables={"points": points, "equal": charts.line_at(1.0, "speedup", charts.MUTED)},
        panels=[
            charts.Panel(title=name, fields={"sqnr": column})
            for name, column in zip(OUTPUTS, SQNR, strict=True)
            if not is_line[column]
        ],
        tips=(
            *charts.text_tips(shape="shape", label="recipe", provider="provider"),
            charts.Tip("speedup", "speed-up", "ratio"),
            charts.Tip("sqnr", "SQNR", "si", "dB"),
        ),
        legend=[*charts.swatches("label", colours), *drawing.provider_legend(table["provider"])],
        alt="SQNR of output and gradients against speed-up over bf16.",
        facts=f"{count_of(len(table), 'ratio')} on normal data, with casts; the fastest is "
        f"{best['label']} by {best['provider']} at {axis_text(best)}: "
        f"{times(float(best['speedup']))} with {best[list(SQNR)].min():.1f} dB in its worst "
        "output.",
    )


SECTION = Section("Accuracy of float8 linears", "recipe", show)
