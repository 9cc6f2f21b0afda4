"""The calibrated equation of a cast's time. See docs/models.md.

    t = fixed + bytes * slower * narrow * (cached / cached_bandwidth + (1 - cached) / bandwidth)

bytes      least bytes of the cast (roofcal.ops.cast.spec), times padding where the family pads
fixed      start of its kernels, however small the matrix
cached     share of the bytes that a later pass finds in the cache: min(1, 3/4 cache / bytes)
bandwidth  least bytes per second that a matrix far beyond the cache reaches; passes and waits that
           a better kernel would not need keep it below the copy bandwidth
slower     `misaligned` where rows or columns are no multiple of 16: loads and stores of 16 bytes
           then cross rows
narrow     1 + extra_columns / columns: a pass along the columns has a program per some columns, and
           few of them leave multiprocessors idle

Families: `padded_1024` are kernels that take rows in blocks of 1024 columns and idle on the rest
(the reductions that Inductor writes). `short_columns` are kernels that keep short columns in
registers and are slower off 16 only beyond (kernels.cast.columns on Hopper): up to 2048 rows and
2^22 elements, or 4096 and 2^24 where the rows are no multiple of 16.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.core.times import Array, Value
from roofcal.ops.cast.spec import SMALL_ELEMENTS, read_bytes, written_bytes

# name -> unit; the constants of one provider and recipe, each above zero
CONSTANTS: Final[dict[str, str]] = {
    "fixed_s": "s",
    "cached_bytes_per_s": "B/s",
    "bytes_per_s": "B/s",
    "misaligned": "1",
    "extra_columns": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Kernels that take rows in blocks of columns, and perhaps short columns from one read."""

    block: int = 1
    short_columns: bool = False


FAMILIES: Final[dict[str, Family]] = {
    "plain": Family(),
    "padded_1024": Family(block=1024),
    "short_columns": Family(short_columns=True),
}
FAMILY: Final = "cast_family"  # the constant that holds the choice, see roofcal.ops.constants
# without these, a calibration is of an older roofcal
REQUIRED: Final = (FAMILY, "fixed_s", "cached_bytes_per_s", "bytes_per_s")
# Constants that the probes may not identify, and the value that leaves them out.
NEUTRAL: Final[dict[str, float]] = {"misaligned": 1.0, "extra_columns": 0.0}
_ALIGNED: Final = 16
_SHORT: Final = (2048, 1 << 22)  # rows, elements
_SHORT_RAGGED: Final = (4096, 1 << 24)
_FEW_ROWS: Final = 128
_CACHE_SHARE: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Seconds per cast, vectorised; `total` is their sum."""

    fixed: Array
    moving: Array

    @property
    def total(self) -> Array:
        """Seconds of the cast."""
        return self.fixed + self.moving

    @property
    def bound_by(self) -> list[str]:
        """The larger part of each: "launch" or "dram"."""
        return [
            "dram" if m >= f else "launch" for m, f in zip(self.moving, self.fixed, strict=True)
        ]


def least_bytes(recipe: str, rows: Array, cols: Array) -> Array:
    """Bytes of roofcal.ops.cast.spec.work for vectors; raises KeyError for an unknown recipe."""
    moved: Array = read_bytes(recipe, rows, cols) + written_bytes(recipe, rows, cols)
    return moved


def interval_groups(rows: Array, cols: Array) -> list[str]:
    """The group of each shape whose errors make its interval: few rows, small or large."""
    few = np.minimum(rows, cols) <= _FEW_ROWS
    small = rows * cols < SMALL_ELEMENTS
    groups: list[str] = np.select([few, small], ["few_rows", "small"], "large").tolist()
    return groups


def _has_long_columns(rows: Array, cols: Array) -> NDArray[np.bool_]:
    """Whether columns are not short."""
    even = rows % _ALIGNED == 0
    most_rows, most = (np.where(even, *pair) for pair in zip(_SHORT, _SHORT_RAGGED, strict=True))
    beyond: NDArray[np.bool_] = (rows > most_rows) | (rows * cols > most)
    return beyond


def evaluate(
    constants: Mapping[str, Value],
    recipe: str,
    rows: Array,
    cols: Array,
    family: str,
    cache_bytes: float,
) -> Parts:
    """Seconds of casts of rows x cols (float64 vectors) on a device with this much cache.

    A constant is a number, or an array that broadcasts with the vectors.
    """
    constants = NEUTRAL | dict(constants)
    moved = least_bytes(recipe, rows, cols)
    cached = np.minimum(1.0, _CACHE_SHARE * cache_bytes / moved)
    per_byte = cached / constants["cached_bytes_per_s"] + (1 - cached) / constants["bytes_per_s"]
    how = FAMILIES[family]
    ragged = (rows % _ALIGNED != 0) | (cols % _ALIGNED != 0)
    if how.short_columns:
        ragged &= _has_long_columns(rows, cols)
    slower = np.where(ragged, constants["misaligned"], 1.0)
    slower = slower * (1 + constants["extra_columns"] / cols)
    padding = np.ceil(cols / how.block) * how.block / cols
    moving = moved * padding * slower * per_byte
    return Parts(fixed=constants["fixed_s"] + np.zeros_like(moving), moving=moving)
