"""Devices as the site shows them: measured ones, and those with a datasheet only.

And published claims, judged on the newest environment of every measured device.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.ask.llm.deployment import INT4_RECIPE
from roofcal.claims import Entry
from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Ceiling
from roofcal.core.visits.intervals import MEANINGS
from roofcal.export.subject import LAUNCH
from roofcal.points.roofs import COPY, STREAMS
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.claims import VERDICT_CLASSES, counts_text, judge
from roofcal.report.data.drawing import recipe_colour
from roofcal.report.data.quality import times_by_hold
from roofcal.report.kit.blocks import Column, Table
from roofcal.report.kit.charts import COLOURS
from roofcal.report.kit.columns import code, fraction, named, number, text, wide
from roofcal.report.kit.numbers import binary, scaled
from roofcal.report.kit.vega import marker_path
from roofcal.report.summary import device_line

_STREAMS: Final = dict(
    zip(STREAMS, ("Memory reads", "Memory writes", "Memory copies"), strict=True)
)
# Name in constants `link.<name>.<world size>.*` -> (what it is, by what).
_LINKS: Final = {
    "send": ("Copy to a peer", "copy engine"),
    "all_gather": ("All-gather", "NCCL"),
    "reduce_scatter": ("Reduce-scatter", "NCCL"),
    "all_reduce": ("All-reduce", "NCCL"),
}
_LAUNCH: Final = "Empty kernel in a graph"
_SETTLED: Final = "rate of the fastest product under load, clocks settled"
_HOLDS_COLUMN: Final = text(
    "holds", "intervals cover", "how far the intervals of most of its times can be trusted"
)
_NAME: Final = Column(key="name", label="device", link="page")
_REPORT: Final = Column(key="report", label="report", link="report_address")
_PEAK: Final = "what the datasheet prints"
_ERROR: Final = "mean error of predictions on products by the library that no fit has seen"
MEASURED_COLUMNS: Final = (
    _NAME,
    *named("environment"),
    number("bf16_peak", "bf16 peak", "TFLOP/s", 1e-12, 4, _PEAK),
    number("bf16_settled", "settled", "TFLOP/s", 1e-12, 3, _SETTLED),
    fraction("bf16_share", "share", digits=0, about="settled / datasheet"),
    number("fp8_peak", "fp8 peak", "TFLOP/s", 1e-12, 4, _PEAK),
    number("fp8_settled", "settled", "TFLOP/s", 1e-12, 3, _SETTLED),
    fraction("fp8_share", "share", digits=0, about="settled / datasheet"),
    number("memory_peak", "memory peak", "TB/s", 1e-12, 3, _PEAK),
    number("memory_copy", "copies", "TB/s", 1e-12, 3, "calibrated rate of memory copies"),
    fraction("memory_share", "share", digits=0, about="copies / datasheet"),
    number("launch_s", "launch", "\N{MICRO SIGN}s", 1e6, 3, "an empty kernel in a CUDA graph"),
    fraction("mape", "prediction off by", about=_ERROR),
    text("date", "measured"),
    _REPORT,
)
DATASHEET_COLUMNS: Final = (
    _NAME,
    number("bf16_peak", "bf16", "TFLOP/s", 1e-12, 4),
    number("fp8_peak", "fp8", "TFLOP/s", 1e-12, 4),
    number("int8_peak", "int8", "TOP/s", 1e-12, 4),
    number("fp4_peak", "fp4", "TFLOP/s", 1e-12, 4),
    number("memory_peak", "memory", "TB/s", 1e-12, 3),
    number("memory_bytes", "size", "GB", 1e-9, 3),
    number("ridge", "bf16 ridge", "FLOP/B", 1.0, 3, "bf16 rate / memory bandwidth"),
    number("link_bytes_per_s", "link, one way", "GB/s", 1e-9, 3),
    number("power_limit_w", "power", "W", 1.0, 4),
    text("models", "predicted by"),
)
_HISTORY_COLUMNS: Final = (
    *named("environment"),
    *(text(key, key) for key in ("driver", "torch", "triton", "cublas")),
    number("bf16_settled", "bf16 settled", "TFLOP/s", 1e-12),
    number("fp8_settled", "fp8 settled", "TFLOP/s", 1e-12),
    number("memory_copy", "copies", "TB/s", 1e-12),
    number("launch_s", "launch", "\N{MICRO SIGN}s", 1e6),
    fraction("mape", "prediction off by", about=_ERROR),
    text("date", "measured"),
    _HOLDS_COLUMN,
    Column(key="moved", label="against the one before", link="moved_address"),
    _REPORT,
)
_RATE_COLUMNS: Final = (
    text("label", "what"),
    text("by", "reached by"),
    text("value", "measured"),
    text("interval", "95 % interval"),
    *named("datasheet"),
    fraction("share", "share", digits=0),
)
_SOURCE_COLUMNS: Final = (
    code("key", "value"),
    text("value", "datasheet"),
    wide("source", "source"),
)


def site_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], id: str, caption: str
) -> Table:
    """Rows as a table of the site, whose pages show all of them at once."""
    frame = pd.DataFrame(list(rows), columns=None if rows else [column.key for column in columns])
    return Table(id, caption, frame, columns, paged_from=math.inf)


def device_address(device: str, root: str = "") -> str:
    """Address of the page of a device; device ids are names of files."""
    return f"{root}devices/{device}.html"


def report_address(publication: Analysis, root: str = "") -> str:
    """Address of the report of a publication."""
    return f"{root}{publication.key}/report.html"


def interval_words(publication: Analysis) -> tuple[str, str]:
    """How far the intervals of most of its times can be trusted, in a word and in a sentence."""
    for holds, count in times_by_hold(publication.frames).most_common(1):
        times = f"{count:,} of its {publication.timed:,} times"
        return holds, f"{times} have an interval that covers {MEANINGS[holds]}."
    return "", ""  # without a time


def measured_row(publication: Analysis, root: str = "") -> dict[str, Any]:
    """What the table of measured devices says of a publication, in SI."""
    spec, constants = publication.spec, publication.constants
    environment = publication.run.environment
    settled: dict[str, float] = {}  # by number format; the fastest recipe of one comes first
    for recipe, product in publication.fastest.items():
        settled.setdefault(GEMM_RECIPES[recipe].math_dtype, product.rate.value)
    row: dict[str, Any] = {
        "name": publication.device_name,
        "page": device_address(publication.device, root),
        "environment": publication.environment_name,
        "memory_peak": spec.dram_bytes_per_s if spec else None,
        "memory_copy": constants[COPY].value if COPY in constants else None,
        "launch_s": constants[LAUNCH].value if LAUNCH in constants else None,
        "mape": device_line(publication)["mape"],
        "date": publication.run.measured_utc[:10],
        "holds": interval_words(publication)[0],
        "report": "report",
        "report_address": report_address(publication, root),
        **{key: getattr(environment, key) for key in ("driver", "torch", "triton", "cublas")},
    }
    for dtype in ("bf16", "fp8"):
        row[f"{dtype}_peak"] = spec.peak_flops_per_s.get(dtype) if spec else None
        row[f"{dtype}_settled"] = settled.get(dtype)
        row[f"{dtype}_share"] = _share(row[f"{dtype}_settled"], row[f"{dtype}_peak"])
    return row | {"memory_share": _share(row["memory_copy"], row["memory_peak"])}


def datasheet_grid(specs: Mapping[str, DeviceSpec]) -> Table:
    """The table of devices that nobody measured, by what their vendors print."""
    rows = [
        {
            "name": spec.names[0],
            "page": device_address(device),
            **{f"{d}_peak": spec.peak_flops_per_s.get(d) for d in ("bf16", "fp8", "int8", "fp4")},
            "memory_peak": spec.dram_bytes_per_s,
            "memory_bytes": spec.dram_bytes,
            "ridge": spec.peak_flops_per_s["bf16"] / spec.dram_bytes_per_s,
            "link_bytes_per_s": spec.link_bytes_per_s,
            "power_limit_w": spec.power_limit_w,
            "models": "datasheet, wave" if spec.wave else "datasheet",
        }
        for device, spec in specs.items()
    ]
    title = "Devices with a datasheet only: nobody measured them"
    return site_table(rows, DATASHEET_COLUMNS, "datasheets", title)


def rates_grid(publication: Analysis) -> Table:
    """What a publication measured beside what the datasheet prints."""
    spec, constants, products = publication.spec, publication.constants, publication.fastest
    peaks = spec.peak_flops_per_s if spec else {}
    memory, link = (spec.dram_bytes_per_s, spec.link_bytes_per_s) if spec else (None, None)
    rates: list[tuple[str, str, Ceiling | None, float | None]] = []
    for recipe in (name for name in GEMM_RECIPES if name in products):
        rate, peak = products[recipe].rate, peaks.get(GEMM_RECIPES[recipe].math_dtype)
        rates.append((f"Fastest {recipe} product", rate.evidence, rate, peak))
    rates += [(label, "", constants.get(name), memory) for name, label in _STREAMS.items()]
    # over the link of a GPU, in bytes that pass it one way, by world size
    names = (name.split(".") for name in constants if name.startswith("link."))
    for size in sorted({int(size) for _, _, size, of in names if of == "bytes_per_s"}):
        for kind, (label, by) in _LINKS.items():
            constant = constants.get(f"link.{kind}.{size}.bytes_per_s")
            rates.append((f"{label}, {size} GPUs", by, constant, link))
    rates.append((_LAUNCH, "", constants.get(LAUNCH), None))
    rows = [
        {
            "label": label,
            "by": by or None,
            "value": scaled(constant.value, constant.unit, 4),
            "interval": f"{scaled(constant.ci95_low, constant.unit, 4)} to "
            f"{scaled(constant.ci95_high, constant.unit, 4)}",
            "datasheet": None if peak is None else scaled(peak, constant.unit, 4),
            "share": _share(constant.value, peak),
        }
        for label, by, constant, peak in rates
        if constant is not None
    ]
    title = f"Settled rates, {publication.environment_name}"
    return site_table(rows, _RATE_COLUMNS, "rates", title)


def history_grid(publications: Sequence[Analysis]) -> Table:
    """The environments of one device, the newest first, as its page shows them."""
    rows = [measured_row(publication, "../") for publication in publications]
    for row, newer, older in zip(rows, publications, publications[1:], strict=False):
        row["moved"] = "compare"
        row["moved_address"] = f"../compare.html#a={side_of(older)}&b={side_of(newer)}".replace(
            "+", "%2B"
        )
    return site_table(rows, _HISTORY_COLUMNS, "history", "Environments, the newest first")


def source_grid(spec: DeviceSpec) -> Table:
    """Every figure of a datasheet with its source."""
    link = spec.link_bytes_per_s
    figures = {
        "compute_units": str(spec.compute_units),
        "dram_gb_per_s": scaled(spec.dram_bytes_per_s, "B/s"),
        "memory_gb": f"{spec.dram_bytes / 1e9:.4g} GB",
        "l2_mib": None if spec.l2_bytes is None else binary(spec.l2_bytes),
        "power_limit_w": scaled(spec.power_limit_w, "W", 4),
        "link_gb_per_s": link and f"{scaled(link, 'B/s')} one way",
    }
    for dtype, rate in spec.peak_flops_per_s.items():
        keys = [key for key in spec.sources if key.split("_")[0] == dtype]
        figures |= dict.fromkeys(keys, scaled(rate, "flop/s", 4))
    rows = [
        {"key": key, "value": value, "source": spec.sources[key]}
        for key, value in figures.items()
        if value is not None and key in spec.sources
    ]
    return site_table(rows, _SOURCE_COLUMNS, "sources", "What the vendor prints, with sources")


def side_of(publication: Analysis) -> str:
    """How the scripts of the site name the measurements of a publication."""
    return f"measured:{publication.key}"


def site_index(publications: Sequence[Analysis], specs: Mapping[str, DeviceSpec]) -> dict[str, Any]:
    """What every script of the site knows: sides that can be compared, and their rates.

    A side is a publication (`measured:<device>/<environment>`), a datasheet (`datasheet:<device>`)
    or what the wave model predicts of a device (`wave:<device>`). Its rates are
    key -> [value] or [value, low, high], in SI, for the keys of `quantities`.
    """
    sides: dict[str, Any] = {}
    for publication in publications:
        constants, products = publication.constants, publication.fastest
        constants_by_key = {
            f"rate.{name}": products[name].rate for name in GEMM_RECIPES if name in products
        }
        constants_by_key |= {
            name: constants[name] for name in (*_STREAMS, LAUNCH) if name in constants
        }
        rates = {key: [c.value, c.ci95_low, c.ci95_high] for key, c in constants_by_key.items()}
        if power := publication.run.environment.power_limit_w:
            rates["power"] = [power]
        sides[side_of(publication)] = {
            "title": publication.device_name,
            "environment": publication.environment_name,
            "device": publication.device,
            "date": publication.run.measured_utc[:10],
            "report": report_address(publication),
            "page": device_address(publication.device),
            "rates": rates,
        }
    for device, spec in specs.items():
        peaks = spec.peak_flops_per_s
        printed = {f"rate.{name}": peaks.get(r.math_dtype) for name, r in GEMM_RECIPES.items()}
        printed |= dict.fromkeys(_STREAMS, spec.dram_bytes_per_s)
        printed |= {"link": spec.link_bytes_per_s, "power": spec.power_limit_w}
        common = {"title": spec.names[0], "device": device, "page": device_address(device)}
        sides[f"datasheet:{device}"] = common | {
            "environment": "datasheet",
            "rates": {key: [value] for key, value in printed.items() if value is not None},
        }
        if spec.wave:
            sides[f"wave:{device}"] = common | {"environment": "wave model", "rates": {}}
    # as variables of the style sheet, colours follow a dark colour scheme
    variables = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
    colours = {recipe: variables[recipe_colour(recipe)] for recipe in GEMM_RECIPES}
    colours["int4"] = variables[recipe_colour(INT4_RECIPE)]  # of language models
    quantities = {f"rate.{recipe}": [f"{recipe} products", "flop/s"] for recipe in GEMM_RECIPES}
    quantities |= {name: [label, "B/s"] for name, label in _STREAMS.items()}
    quantities |= {
        LAUNCH: [_LAUNCH, "s"],
        "link": ["Link, one way", "B/s"],
        "power": ["Power limit", "W"],
    }
    return {
        "sides": sides,
        "quantities": quantities,
        "colours": colours,
        "markers": {
            side: marker_path(marker) for side, marker in zip("ABCDEF", "o^sDvP", strict=True)
        },
    }


def _share(value: float | None, whole: float | None) -> float | None:
    return value / whole if value is not None and whole else None


def judged_ledgers(
    publications: Sequence[Analysis], entries: Sequence[Entry]
) -> Iterator[dict[str, Any]]:
    """Every ledger with its claims on the newest environments, a column of verdicts for each.

    counts: (device, how many have each verdict) of each.
    """
    newest = [publication for publication in publications if not publication.is_earlier]
    verdicts = {p.key: judge(entries, p.run, p.spec, p.frames) for p in newest}
    columns = [wide("says", "claim"), text("theirs", "theirs")]
    for publication in newest:
        name = publication.device_name
        columns.append(
            Column(key=publication.key, label=name, kind="verdict", signs=VERDICT_CLASSES)
        )
        columns.append(wide(f"ours {publication.key}", "ours, or why it cannot be tested"))
    ledgers = {entry.ledger.ledger: entry.ledger for entry in entries}
    for name, ledger in ledgers.items():
        own = {
            key: [row for row in of_all if row["entry"].ledger.ledger == name]
            for key, of_all in verdicts.items()
        }
        rows = []
        for of_claim in zip(*own.values(), strict=True):
            row: dict[str, Any] = {}
            for key, verdict in zip(own, of_claim, strict=True):
                row |= {"says": verdict["says"], "theirs": verdict["theirs_shown"]}
                row |= {key: verdict["verdict"]}
                row[f"ours {key}"] = verdict["reason"] or verdict["ours_shown"]
            rows.append(row)
        yield {
            "ledger": ledger,
            "counts": [(p.device_name, counts_text(own[p.key])) for p in newest],
            "grid": site_table(rows, columns, f"claims-{name}", f"{ledger.title} ({name})"),
        }
