"""Which tile and split our kernels take for a product on Hopper, from its sizes alone.

The rule and its figures are those of kernels.gemm (tile_choice, skinny and the tables beside them),
which no model of time may import; a test holds both against each other. A product of up to 64 rows
has the rows of B on the matrix unit's M side and its K split among programs; any other has the tile
with the least waves x area / rate, and no split.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from roofcal.core.times import Array

MOST_FEW_ROWS: Final = 64
_STEP: Final = 128  # columns of K
_LEAST_STEPS: Final = 4  # that a program makes
_PROGRAMS_PER_UNIT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TileRule:
    """Tiles (rows, columns, rate) to choose from, and the columns of one for few rows."""

    tiles: tuple[tuple[int, int, float], ...]
    few_rows_columns: int


RULES: Final[dict[str, TileRule]] = {
    "fast": TileRule(
        tiles=(
            *((128, 256, 1.0), (256, 128, 0.9), (128, 128, 0.9), (64, 128, 0.6)),
            (128, 128, 1.03),
        ),
        few_rows_columns=64,
    ),
    "slow": TileRule(
        tiles=((256, 128, 1.0), (128, 128, 0.86), (64, 128, 0.7), (128, 256, 1.32)),
        few_rows_columns=64,
    ),
    "blocks": TileRule(
        tiles=(
            *((128, 128, 1.0), (64, 128, 0.91), (192, 128, 1.82), (128, 256, 1.74)),
            (128, 128, 1.57),
        ),
        few_rows_columns=128,
    ),
}


def our_tiles(rule: str, m: Array, n: Array, k: Array, units: int) -> tuple[Array, Array, Array]:
    """(rows, columns, split) of the tile of every product, [shapes, 1]; `rule` is of RULES."""
    tiles = RULES[rule].tiles
    waves = [np.ceil(np.ceil(m / rows) * np.ceil(n / cols) / units) for rows, cols, _ in tiles]
    costs = [
        wave * rows * cols / rate for wave, (rows, cols, rate) in zip(waves, tiles, strict=True)
    ]
    best = np.argmin(costs, axis=0)
    few_rows, narrow = m <= MOST_FEW_ROWS, float(RULES[rule].few_rows_columns)
    padded = 2.0 ** np.ceil(np.log2(np.clip(m, 16, MOST_FEW_ROWS)))
    rows = np.where(few_rows, padded, np.array([float(tile[0]) for tile in tiles])[best])
    cols = np.where(few_rows, narrow, np.array([float(tile[1]) for tile in tiles])[best])
    steps = np.ceil(k / _STEP)
    for_all_units = _PROGRAMS_PER_UNIT * units // np.ceil(n / narrow)
    pieces = np.maximum(1.0, np.minimum(for_all_units, steps // _LEAST_STEPS))
    split = np.where(few_rows, np.ceil(steps / np.ceil(steps / pieces)), 1.0)
    return rows[:, None], cols[:, None], split[:, None]
