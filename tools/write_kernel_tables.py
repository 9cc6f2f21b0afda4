"""Write kernels/<family>/README.md: the speed of each family beside its peers, as published.

A ratio is the time of the peer over ours on one shape, of points that were timed in turns: graph
replay, cold cache, random normal data. Above 1, ours is faster.
Run: python -m tools.write_kernel_tables; a test fails when a page and the tables disagree.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.units import significant
from roofcal.ops import BY_NAME
from roofcal.report.data.prediction_errors import regime_rank
from roofcal.report.data.tidy import axes_of, standard_rows
from roofcal.report.kit.numbers import shape_text
from tools.method_numbers import markdown_table, tables_of_devices

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """How a point is shown: a column of its table times a factor, and the name of that."""

    column: str
    factor: float
    name: str


TBPS: Final = Unit(column="achieved_bytes_per_s", factor=1e-12, name="TB/s")
TFLOPS: Final = Unit(column="achieved_flops_per_s", factor=1e-12, name="TFLOP/s")
MICROSECONDS: Final = Unit(column="median_s", factor=1e6, name="us")


@dataclass(frozen=True, slots=True)
class Comparison:
    """An op that runs kernels of a family, and who else runs it.

    ours   providers that are kernels of the family
    peers  (provider, recipe) of each peer; recipe "" is the one that is compared
    shown  sweeps whose shapes stand in a table of their own, in `unit`; so do those of sweeps whose
           names go on behind theirs (`square_standard`), of studies that measure fewer points
    by     column whose values are told apart: a key of GROUPS
    memory whether a table of what calls hold follows, where points of these sweeps know it
    """

    op: str
    ours: tuple[str, ...]
    peers: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]
    unit: Unit = MICROSECONDS
    by: str = "regime"
    memory: bool = False


_LINEAR_PEERS: Final = (("bf16_compile", "bf16"), ("torchao", ""))
_INT4_PEERS: Final = (
    *(("tinygemm", ""), ("gemlite", "")),
    *(("cublaslt", "fp8_tensorwise"), ("cublaslt", "bf16")),
)
_STREAM_PEERS: Final = (("torch_eager", ""),)
_CAST_PEERS: Final = (("torch_compile", ""), ("torch_eager", ""))
_GEMM_PEERS: Final = (("cublaslt", ""), ("cublaslt", "bf16"))
_GATHER_PEERS: Final = (("nccl_then_gemm", ""), ("torch_fused", ""))
_OUR_INT4: Final = ("triton", "triton_chained", "triton_specialised")
_OUR_LINEARS: Final = ("triton", "triton_products", "triton_inputs")
FAMILIES: Final[dict[str, tuple[Comparison, ...]]] = {
    "streams": (Comparison("probe_copy", ("triton",), _STREAM_PEERS, ("sizes",), TBPS),),
    "cast": (Comparison("cast", ("triton",), _CAST_PEERS, ("square",), TBPS),),
    "gemm": (Comparison("gemm", ("triton",), _GEMM_PEERS, ("square_ours",), TFLOPS),),
    "int4": (Comparison("mixed_gemm", _OUR_INT4, _INT4_PEERS, ("decode", "many_tokens"), by="m"),),
    "linear": tuple(
        Comparison(op, _OUR_LINEARS, _LINEAR_PEERS, (shown,), memory=True)
        for op, shown in (
            ("linear", "layers"),
            ("norm_linear_sigmoid", "square"),
            ("transformer_block", "llama3"),
        )
    ),
    "gather": (
        Comparison(
            "all_gather_matmul", ("symm_mem_fused",), _GATHER_PEERS, ("nine",), by="world_size"
        ),
    ),
}
# What a reader has to know of the numbers of a family.
NOTES: Final = {
    "gemm": "At the power limit of the card a turn lasts 400 ms, of which the last 100 count, so "
    "that no contender runs on power that another saved.",
    "int4": "`triton` are kernels.int4.direct and kernels.int4.staged, and `triton_chained` "
    "launches them by programmatic dependent launch, as layers behind one another do. "
    "`triton_specialised` is what int4_gemm takes from 17 tokens on where K is 4096 and more "
    "(kernels.int4.rule.is_for_specialised has the exceptions), but not for groups of 32; where "
    "such a shape has no row of it, its time is not published. m is the number of tokens.",
    "gather": "Times are those of the slowest rank, replayed from CUDA graphs. The H200's are from "
    "turns of 20 ms: at the power limit of the card contenders share its power, and a ratio near 1 "
    "is not settled. The H100's turns at that limit last 400 ms, of which the last 100 count.",
}
_HEAD: Final = """\
# Speed of `kernels.{family}`

{about}

`python -m tools.write_kernel_tables` writes this page from what is published of {device},
environment `{environment}`{others}.
Ratios are the time of the peer over ours on one shape, timed in turns (graph replay, cold cache,
random normal data): the geometric mean over the points, and the least and most. Above 1, ours is
faster. [How it is measured](../../docs/method.md).
"""
Points = pd.DataFrame


def device_of(tables: Path) -> str:
    """The device of the publication whose tables these are."""
    return tables.parents[1].name


def frame_of(tables: Path, op: str) -> Points | None:
    """The points of an op that were timed as the study does; None where a run has none."""
    file = tables / f"{device_of(tables)}_{op}.csv"
    return standard_rows(pd.read_csv(file, low_memory=False)) if file.is_file() else None


def ratios(points: Points, comparison: Comparison) -> Points:
    """A row for each of our points and peer on the same shape.

    peer   provider, and recipe where it is not that of our point
    ratio  time of the peer over ours
    """
    keys = [*axes_of(points), "world_size"]
    ours = points[points["provider"].isin(comparison.ours)]
    found = []
    for provider, recipe in comparison.peers:
        of_peer = points[points["provider"] == provider]
        own = [*keys, "recipe"]
        if recipe:
            of_peer, own = of_peer[of_peer["recipe"] == recipe], keys
        theirs = of_peer[[*own, "median_s"]].drop_duplicates(own)
        both = ours[(ours["recipe"] != recipe)].merge(theirs, on=own, suffixes=("", "_peer"))
        name = _peer_name((provider, recipe))
        found.append(both.assign(peer=name, ratio=both["median_s_peer"] / both["median_s"]))
    return pd.concat(found, ignore_index=True)


def ratio_table(rows: Points, comparison: Comparison) -> list[str]:
    """Lines of Markdown: recipes and groups down, peers across."""
    peers = [peer for peer in map(_peer_name, comparison.peers) if peer in set(rows["peer"])]
    label, texts, ranks = GROUPS[comparison.by](rows[comparison.by])
    lines = []
    of_recipe = rows["recipe"].map(BY_NAME[comparison.op].recipes.index)
    ordered = rows.assign(group=texts, rank=ranks, of_recipe=of_recipe)
    keys = ["of_recipe", "recipe", "provider", "rank", "group"]
    for (_, recipe, provider, _, group), members in ordered.groupby(keys):
        by_peer = [members.loc[members["peer"] == peer, "ratio"] for peer in peers]
        count = max(len(values) for values in by_peer)
        lines.append([recipe, provider, group, count, *map(_ratio_text, by_peer)])
    return markdown_table(["recipe", "provider", label, "points", *peers], lines)


def _peer_name(peer: tuple[str, str]) -> str:
    return " ".join(peer).strip()


Groups = tuple[str, "pd.Series[str]", "pd.Series[int]"]  # label, text and rank of each row


def _by_regime(values: "pd.Series[str]") -> Groups:
    return "regime", values, values.map(regime_rank)


def _by_devices(values: "pd.Series[int]") -> Groups:
    return "GPUs", values.astype(str), values


def _by_tokens(values: "pd.Series[int]") -> Groups:
    """Powers of two, each with the sizes between it and the one before."""
    ends = 2 ** np.ceil(np.log2(values)).astype(int)
    texts = ends.map(lambda end: str(end) if end < 4 else f"{end // 2 + 1} to {end}")
    return "tokens", texts, ends


GROUPS: Final[dict[str, Callable[["pd.Series[Any]"], Groups]]] = {
    "regime": _by_regime,
    "world_size": _by_devices,
    "m": _by_tokens,
}


def shown_sweeps(points: Points, comparison: Comparison) -> list[str]:
    """The sweeps among these points whose points are shown: `shown`, and what goes on behind it."""
    sweeps = dict.fromkeys(name for names in points["sweeps"].str.split(";") for name in names)
    return [s for s in sweeps if any(f"{s}_".startswith(f"{name}_") for name in comparison.shown)]


def shown_points(points: Points, comparison: Comparison) -> Points:
    """The points of the sweeps shown."""
    shown = set(shown_sweeps(points, comparison))
    return points[points["sweeps"].str.split(";").map(lambda names: not shown.isdisjoint(names))]


def memory_table(points: Points, comparison: Comparison) -> list[str]:
    """Lines of Markdown: shapes and providers down, recipes across, GB; [] where none is known."""
    shown = shown_points(points, comparison)
    known = shown.dropna(subset="peak_bytes") if "peak_bytes" in shown else shown.iloc[:0]
    if known.empty:
        return []
    axes = axes_of(points)
    recipes = [r for r in BY_NAME[comparison.op].recipes if r in set(known["recipe"])]
    lines = []
    for (*sides, provider), rows in known.groupby([*axes, "provider"], sort=True):
        most = rows.groupby("recipe")["peak_bytes"].min()
        cells = [significant(most[r] / 1e9, 3) if r in most else "" for r in recipes]
        lines.append([shape_text(sides), provider, *cells])
    return markdown_table([" x ".join(axes), "provider", *recipes], lines)


def point_table(points: Points, comparison: Comparison) -> list[str]:
    """Lines of Markdown: the shapes of the sweeps shown; ours, and in brackets the fastest peer.

    Each of our providers has a row of its own where there are several: which of them runs is not
    decided by their times, so the fastest would be more than what callers get.
    """
    compared = ratios(shown_points(points, comparison), comparison)
    axes = axes_of(points)
    recipes = [r for r in BY_NAME[comparison.op].recipes if r in set(compared["recipe"])]
    gpus = ["GPUs"] if (compared["world_size"] > 1).any() else []
    providers = ["provider"] if compared["provider"].nunique() > 1 else []
    lines = []
    keys = [*axes, "world_size", "provider"]
    for (*sides, devices, provider), rows in compared.groupby(keys):
        labels = [*([devices] if gpus else []), *([provider] if providers else [])]
        cells = [_point_text(rows[rows["recipe"] == recipe], comparison) for recipe in recipes]
        lines.append([shape_text(sides), *labels, *cells])
    return markdown_table([" x ".join(axes), *gpus, *providers, *recipes], lines)


def _point_text(rows: Points, comparison: Comparison) -> str:
    """One of our providers and the fastest peer of one recipe on one shape."""
    if rows.empty:
        return ""
    ours, peer = rows["median_s"].min(), rows["median_s_peer"].min()
    unit, values = comparison.unit, (ours, peer)
    if unit.column != "median_s":
        per_second = float(rows[unit.column].iloc[0] * rows["median_s"].iloc[0])
        values = (per_second / ours, per_second / peer)
    return "{} ({})".format(*(significant(value * unit.factor, 4) for value in values))


def _ratio_text(values: "pd.Series[float]") -> str:
    if values.empty:
        return ""
    mean = float(np.exp(np.log(values).mean()))
    return f"{mean:.2f}" + (f" ({values.min():.2f} to {values.max():.2f})" * (len(values) > 1))


def family_page(family: str, first: Path, *others: Path) -> str:
    """The text of kernels/<family>/README.md from the tables of publications of devices.

    first    of the device whose ops are all named, published or not
    others   of devices that show the ops they have
    """
    texts = {tables: [*_sections(family, tables, first)] for tables in (first, *others)}
    shown = [tables for tables in others if texts[tables]]
    lines = [text for tables in (first, *shown) for text in texts[tables]]
    return "\n".join([_head(family, first, shown), *lines])


def _head(family: str, tables: Path, others: Sequence[Path]) -> str:
    source = (ROOT / "kernels" / family / "__init__.py").read_text(encoding="utf-8")
    about, _, modules = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    if modules:
        about = f"{about}\n\n```text\n{modules}\n```"
    notes = [NOTES[family] + "\n"] if family in NOTES else []
    head = _HEAD.format(
        family=family,
        about=about,
        device=device_of(tables),
        environment=tables.parent.name,
        others="".join(f";\nat its end {device_of(t)}, `{t.parent.name}`" for t in others),
    )
    return "\n".join([head, *notes])


def _sections(family: str, tables: Path, first: Path) -> Iterator[str]:
    """The ops of a device; those that it lacks are named on the first one alone."""
    on_device = "" if tables == first else f" on {device_of(tables)}"
    for comparison in FAMILIES[family]:
        points, rows = _compared(tables, comparison)
        if len(rows) or not on_device:
            yield f"## Op `{comparison.op}`{on_device}\n"
        if len(rows):
            yield from _tables(points, rows, comparison)
        elif not on_device:
            yield "Not published yet: the next publication of a study that measures it shows it.\n"


def _compared(tables: Path, comparison: Comparison) -> tuple[Points, Points]:
    """The points of an op, and their ratios; empty where it was not published."""
    points = frame_of(tables, comparison.op)
    if points is None:
        return pd.DataFrame(), pd.DataFrame()
    return points, ratios(points, comparison)


def _tables(points: Points, rows: Points, comparison: Comparison) -> Iterator[str]:
    yield "\n".join(ratio_table(rows, comparison)) + "\n"
    sweeps = shown_sweeps(points, comparison)
    if sweeps:
        yield (
            f"The points of {', '.join(f'`{name}`' for name in sweeps)} in "
            f"{comparison.unit.name}: ours, and in brackets the fastest peer of the table above.\n"
        )
        yield "\n".join(point_table(points, comparison)) + "\n"
        if comparison.memory and (lines := memory_table(points, comparison)):
            yield "Most device memory that a call holds beyond its inputs, GB.\n"
            yield "\n".join(lines) + "\n"


def readme_of(family: str) -> Path:
    """The page of a family."""
    return ROOT / "kernels" / family / "README.md"


if __name__ == "__main__":
    published = tables_of_devices()
    for name in FAMILIES:
        readme_of(name).write_text(family_page(name, *published), encoding="utf-8")
        print(readme_of(name))
