"""Column kinds shared by many tables: how values are shown, and in which unit."""

import math
from collections.abc import Iterable
from typing import Any, Final

from roofcal.core.units import significant
from roofcal.report.kit.blocks import Column
from roofcal.report.kit.numbers import MICROSECONDS, percent, times


def number(
    key: str, label: str, unit: str, factor: float, digits: int = 3, about: str = ""
) -> Column:
    """A column of SI values, shown in `unit`, of which an SI unit has `factor`."""
    return Column(
        key=key,
        label=label,
        kind="number",
        unit=unit,
        show=lambda value: significant(value * factor, digits),
        about=about,
        factor=factor,
    )


def text(key: str, label: str, about: str = "") -> Column:
    """A column of words."""
    return Column(key=key, label=label, about=about)


def wide(key: str, label: str) -> Column:
    """A column of sentences."""
    return Column(key=key, label=label, kind="wide")


def code(key: str, label: str, about: str = "") -> Column:
    """A column of names and commands as a program has them."""
    return Column(key=key, label=label, kind="code", about=about)


def count(key: str, label: str, about: str = "") -> Column:
    """A column of whole numbers."""
    return Column(key=key, label=label, kind="number", show=lambda v: f"{int(v):,}", about=about)


def counts(*keys: str) -> tuple[Column, ...]:
    """Columns of whole numbers under their own names, as the axes of an op have."""
    return tuple(count(key, key.replace("_", " ")) for key in keys)


def seconds(key: str, label: str, about: str = "") -> Column:
    """A column of times in microseconds."""
    return number(key, label, MICROSECONDS, 1e6, 4, about)


def fraction(
    key: str, label: str, *, signed: bool = False, digits: int = 1, about: str = ""
) -> Column:
    """A column of fractions in percent."""

    def show(value: Any) -> str:
        return percent(value, digits, signed=signed)

    return Column(key=key, label=label, kind="number", show=show, about=about, factor=100.0)


def decibels(key: str, label: str = "") -> Column:
    """A column of signal to quantisation noise; its label follows from a key `<output>_sqnr_db`.

    A result without any error has infinitely many decibels, shown as `exact`.
    """
    return Column(
        key=key,
        label=label or key.removesuffix("_sqnr_db"),
        kind="number",
        unit="dB",
        show=lambda value: f"{value:.1f}" if math.isfinite(value) else "exact",
        about="signal to quantisation noise: -20 log10 of the relative error",
    )


def written_number(key: str, label: str, sort_key: str, about: str = "") -> Column:
    """A column of numbers that the table holds as text; it is sorted by the column `sort_key`."""
    return Column(key=key, label=label, kind="number", sort_key=sort_key, about=about)


def ratio(key: str, label: str, about: str = "", *, digits: int | None = None) -> Column:
    """A column of ratios, with a multiplication sign; with `digits` decimals and without it."""
    show = times if digits is None else (lambda value: f"{value:.{digits}f}")
    return Column(key=key, label=label, kind="number", show=show, about=about)


# Columns that several tables have under one label; others of `named` are words.
_SHARED: Final = {
    column.key: column
    for column in (
        *counts("m", "n", "k", "points", "shapes", "sentinels"),
        count("world_size", "devices"),
        text("protocol", "timed by"),
        number("achieved_flops_per_s", "achieved", "TFLOP/s", 1e-12),
        number("achieved_bytes_per_s", "achieved", "TB/s", 1e-12, about="least bytes / time"),
        ratio("speedup", "speed-up"),
        ratio("speedup_low", "low"),
        ratio("speedup_high", "high"),
        text(
            "interval_holds",
            "interval covers",
            "how far it can be trusted: in this visit, in later visits of this session, in another "
            "session on this card, on another card of this model",
        ),
        Column(
            key="states",
            label="states",
            unit=MICROSECONDS,
            about="times of visits more than 5 % apart, and the number of visits in each state",
        ),
        number("sm_clock_hz", "SM clock", "MHz", 1e-6, 4),
        number("power_w", "power", "W", 1),
    )
}


def named(*keys: str) -> tuple[Column, ...]:
    """Columns that several tables have, and columns of words under their own names."""
    return tuple(_SHARED.get(key) or text(key, key.replace("_", " ")) for key in keys)


def keys_of(columns: Iterable[Column]) -> list[str]:
    """The columns of the frame behind a table."""
    return [column.key for column in columns]
