"""Which columns a table of the page shows, under which label and in which unit."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import pandas as pd

from roofcal.report.data.comparisons import protocol_name
from roofcal.report.data.quality import half_width
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.numbers import percent, significant, times

MICROSECONDS: Final = "\N{MICRO SIGN}s"


def in_unit(factor: float, digits: int = 4) -> Callable[[Any], str]:
    """A formatter of SI values in a unit that is 1 / factor of it."""
    return lambda value: significant(value * factor, digits)


def text(key: str, label: str, about: str = "") -> Column:
    """A column of words."""
    return Column(key=key, label=label, about=about)


def wide(key: str, label: str) -> Column:
    """A column of sentences."""
    return Column(key=key, label=label, kind="wide")


def count(key: str, label: str) -> Column:
    """A column of whole numbers."""
    return Column(key=key, label=label, kind="number", show=lambda v: f"{int(v):,}")


def seconds(key: str, label: str, about: str = "") -> Column:
    """A column of times in microseconds."""
    show = in_unit(1e6)
    return Column(key=key, label=label, kind="number", unit=MICROSECONDS, show=show, about=about)


def fraction(key: str, label: str, *, signed: bool = False, digits: int = 1) -> Column:
    """A column of fractions in percent."""

    def show(value: Any) -> str:
        return percent(value, digits, signed=signed)

    return Column(key=key, label=label, kind="number", show=show)


def decibels(key: str, label: str = "") -> Column:
    """A column of signal to quantisation noise; the label follows from the key `<output>_sqnr_db`.

    A result without an error has none that a number could say.
    """
    return Column(
        key=key,
        label=label or key.removesuffix("_sqnr_db"),
        kind="number",
        unit="dB",
        show=lambda value: f"{value:.1f}" if math.isfinite(value) else "exact",
        about="signal to quantisation noise: -20 log10 of the relative error",
    )


def ratio(key: str, label: str) -> Column:
    """A column of ratios."""
    return Column(key=key, label=label, kind="number", show=times)


TFLOPS: Final = Column(
    key="achieved_flops_per_s",
    label="achieved",
    kind="number",
    unit="TFLOP/s",
    show=in_unit(1e-12, 3),
)
TBPS: Final = Column(
    key="achieved_bytes_per_s",
    label="achieved",
    kind="number",
    unit="TB/s",
    show=in_unit(1e-12, 3),
    about="least bytes over time",
)
CLOCK: Final = Column(
    key="sm_clock_hz", label="SM clock", kind="number", unit="MHz", show=in_unit(1e-6, 4)
)
POWER: Final = Column(key="power_w", label="power", kind="number", unit="W", show=in_unit(1, 3))


def point_columns(axes: Sequence[str], outputs: Sequence[str] = ()) -> list[Column]:
    """Columns of the table of all points of an op; those without a value are left out.

    outputs: columns of signal to quantisation noise, see tables.sqnr_columns.
    """
    return [
        text("recipe", "recipe"),
        *(count(axis, axis.replace("_", " ")) for axis in axes),
        text("provider", "provider"),
        text("protocol", "timed by"),
        text("regime", "regime"),
        text("status", "status"),
        seconds("median_s", "median"),
        Column(
            key="half_width",
            label="\N{PLUS-MINUS SIGN}",
            kind="number",
            show=percent,
            about="half the 95 % interval of the median",
        ),
        TFLOPS,
        TBPS,
        seconds("predicted_s", "predicted", about="calibrated model"),
        fraction("relative_error", "error", signed=True),
        text("bound_by", "bound by", about="largest part of the calibrated model's time"),
        seconds("burst_median_s", "burst", about="median of the first turn, before settling"),
        CLOCK,
        POWER,
        Column(
            key="numeric_error",
            label="numeric error",
            kind="number",
            show=lambda v: f"{v:.1e}",
            about="distance from the reference, relative",
        ),
        Column(
            key="quantisation_error",
            label="format error",
            kind="number",
            show=lambda v: f"{v:.1e}",
            about="distance of the product of the stored operands from that of those before",
        ),
        *(decibels(name) for name in outputs),
        count("samples", "samples"),
        text("sweeps", "sweeps"),
        Column(key="point_id", label="point", kind="code"),
    ]


def with_shown(frame: pd.DataFrame) -> pd.DataFrame:
    """A tidy frame and the two columns that only people need: `protocol`, `half_width`."""
    return with_protocol(frame).assign(half_width=half_width(frame))


def with_protocol(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame and its column `protocol`: how a point was timed, in words."""
    protocols = [protocol_name(row) for row in frame[_PROTOCOL].to_dict("records")]
    return frame.assign(protocol=pd.Series(protocols, index=frame.index, dtype=object))


_PROTOCOL: Final = ["method", "cache", "distribution"]

ERRORS: Final = (
    text("model", "model"),
    text("regime", "regime"),
    text("recipe", "recipe"),
    text("provider", "provider"),
    count("count", "points"),
    fraction("mape", "MAPE"),
    fraction("median_abs_error", "median"),
    fraction("p95_abs_error", "95th percentile"),
    fraction("median_error", "bias", signed=True),
    fraction("worst_error", "worst", signed=True),
    fraction("coverage", "in interval"),
    count("violations", "faster than it says"),
)
WORST: Final = (
    text("recipe", "recipe"),
    text("provider", "provider"),
    text("shape", "shape"),
    text("regime", "regime"),
    seconds("median_s", "measured"),
    seconds("predicted_s", "predicted"),
    fraction("relative_error", "error", signed=True),
    text("bound_by", "bound by"),
    Column(key="kernel_names", label="kernel", kind="code"),
)
VIOLATIONS: Final = (
    text("bound", "roof"),
    text("op", "op"),
    text("recipe", "recipe"),
    text("shape", "shape"),
    text("provider", "provider"),
    text("protocol", "timed by"),
    seconds("median_s", "measured"),
    seconds("bound_s", "least by the roof"),
    ratio("factor", "faster by"),
    CLOCK,
    wide("cause", "most likely cause"),
)
CAUSES: Final = (
    text("bound", "roof"),
    text("op", "op"),
    count("points", "points"),
    ratio("worst", "faster by at most"),
    wide("cause", "most likely cause"),
)
PANEL: Final = (
    text("recipe", "recipe"),
    text("shape", "shape"),
    text("protocol", "timed by"),
    seconds("median_s", "median"),
    ratio("ratio", "to graph, cold"),
    ratio("ratio_low", "low"),
    ratio("ratio_high", "high"),
    CLOCK,
    POWER,
)
REASONS: Final = (
    count("count", "points"),
    text("status", "status"),
    text("op", "op"),
    text("recipe", "recipe"),
    text("provider", "provider"),
    text("example", "for example"),
    wide("reason", "reason"),
)
MISSING_POINTS: Final = (
    text("status", "status"),
    text("op", "op"),
    text("recipe", "recipe"),
    text("shape", "shape"),
    text("provider", "provider"),
    text("protocol", "timed by"),
    wide("reason", "reason"),
)
QUALITY: Final = (
    text("op", "op"),
    count("points", "points"),
    count("ok", "with a time"),
    Column(key="wall_s", label="wall time", kind="number", unit="s", show=in_unit(1, 3)),
    fraction("busy_fraction", "busy", digits=0),
    Column(key="points_per_minute", label="points/min", kind="number", show=in_unit(1, 3)),
    count("samples", "samples, median"),
    fraction("half_width_fraction", "interval, median", digits=2),
    fraction("narrow_fraction", "known to 1 %", digits=0),
    fraction("throttled_fraction", "clocked down", digits=0),
    fraction("drift_fraction", "sentinel drift", digits=2),
)
SPEEDUPS: Final = (
    text("recipe", "recipe"),
    text("provider", "provider"),
    count("world_size", "devices"),
    count("m", "m"),
    count("n", "n"),
    count("k", "k"),
    text("regime", "regime"),
    seconds("baseline_s", "baseline"),
    seconds("median_s", "median"),
    ratio("speedup", "speed-up"),
    ratio("speedup_low", "low"),
    ratio("speedup_high", "high"),
)
PROBE_ERRORS: Final = (
    text("op", "op"),
    text("provider", "provider"),
    text("recipe", "recipe"),
    count("count", "probes"),
    fraction("mape", "MAPE"),
    fraction("median", "median"),
    fraction("p95", "95th percentile"),
)
SESSIONS: Final = (
    text("op", "op"),
    text("started_utc", "started, UTC"),
    text("finished_utc", "finished, UTC"),
    text("host", "host"),
    Column(key="commit", label="commit", kind="code"),
    text("dirty", "uncommitted"),
    Column(
        key="code", label="code", kind="code", about="first digits of the measuring code's hash"
    ),
    Column(key="session_id", label="session", kind="code"),
    Column(key="device_uuid", label="device", kind="code"),
    Column(key="command", label="command", kind="code"),
    Column(key="timing", label="timing", kind="code"),
)
