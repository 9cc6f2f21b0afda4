"""How libraries and our kernels cut a product in tiles, and what the time on each cut depends on.

The equation itself, and what each term stands for, is in `model` beside.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofcal.core.recipes import BITS, GEMM_RECIPES, nbytes
from roofcal.core.times import Array
from roofcal.ops.kernel_rules import gemm as gemm_rule

_ROW_ALIGNMENT_BYTES: Final = 64
ALIGNED_BYTES: Final = 16
_K_STEP_BYTES: Final = 128

# Tile sides as the kernel names of cuBLAS on Hopper show them: one side 64 or 128 and the other any
# of these. Larger tiles are left out, because probes tell no difference with and without them.
_SIDES: Final = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256)
_HALF: Final = [(a, b) for a in (64, 128) for b in _SIDES if a * b <= 128 * 160]
_TILES: Final = tuple(sorted({*_HALF, *((b, a) for a, b in _HALF)}))
_SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class TileFamily:
    """Tiles (rows, columns of C) a library chooses from, and whether it may split K.

    rule: of kernels.gemm.rule.TILES, by which a shape has one tile and split in our kernels
    """

    tiles: tuple[tuple[int, int], ...] = ()
    splits: tuple[int, ...] = ()
    rule: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether products are cut in no tiles."""
        return not self.tiles and not self.rule


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFamily(TileFamily):
    """Of a processor, see `packed_parts` of the model; constants: those of its equation."""

    constants: tuple[str, ...]


_PACKED: Final = (
    "launch_s",
    "side_s",
    "tile_flops_per_s",
    "direct_flops_per_s",
    "dram_bytes_per_s",
)
_APART: Final = (*_PACKED, "pack_a_bytes_per_s", "pack_b_bytes_per_s")
_FAR: Final = ("near_bytes", "far")

FAMILIES: Final[dict[str, TileFamily]] = {
    "plain": TileFamily(),
    "any_tile_split_k": TileFamily(tiles=_TILES, splits=_SPLITS),
    "any_tile": TileFamily(tiles=_TILES, splits=(1,)),
    "tile_128x128": TileFamily(tiles=((128, 128),), splits=(1,)),
    "tile_128x128_split_k": TileFamily(tiles=((128, 128),), splits=_SPLITS),
    "ours_fast": TileFamily(rule="fast"),
    "ours_slow": TileFamily(rule="slow"),
    "ours_blocks": TileFamily(rule="blocks"),
    "packed_alike": PackedFamily(constants=(*_PACKED, "pack_bytes_per_s")),
    "packed": PackedFamily(constants=_APART),
    "packed_far": PackedFamily(constants=(*_APART, *_FAR)),
    "packed_stores": PackedFamily(constants=(*_APART, "update_bytes_per_s")),
}


class TileChoices(NamedTuple):
    """What the time on each choice of tile and split depends on, for any constants.

    Arrays that broadcast together, [shapes, choices] as `describe` makes them: of floats, is_* and
    has_* of bools, alignment of int64.

    flops, k_bytes, load_bytes, store_bytes: of one tile, or of its part of K where K is split.
    sum_bytes: of the sums of all parts of K, 0 without a split
    dram_bytes: of the product
    """

    flops: NDArray[Any]
    k_bytes: NDArray[Any]
    load_bytes: NDArray[Any]
    store_bytes: NDArray[Any]
    waves: NDArray[Any]
    busy_units: NDArray[Any]
    is_split: NDArray[Any]
    sum_bytes: NDArray[Any]
    dram_bytes: NDArray[Any]
    has_few_rows: NDArray[Any]
    is_misaligned: NDArray[Any]
    alignment: NDArray[Any]

    @property
    def is_one_size(self) -> bool:
        """Whether all tiles have one size."""
        return len(np.unique(self.store_bytes)) == 1


class Shapes(NamedTuple):
    """What the model needs of many shapes of one recipe, computed once for any constants."""

    flops: Array
    unit_flops: Array
    dram_bytes: Array
    k_bytes: Array
    alignment: NDArray[np.int64]
    choices: TileChoices

    @property
    def path(self) -> NDArray[np.str_]:
        """Which kernels each shape can take: "aligned", "8_byte" or "odd"."""
        small = [self.alignment == ALIGNED_BYTES, self.alignment == 8]
        return np.select(small, ["aligned", "8_byte"], "odd")


def describe(recipe: str, m: Array, n: Array, k: Array, family: str, compute_units: int) -> Shapes:
    """Shapes of vectors m, n, k (float64) on a device of `compute_units`; KeyError for names."""
    width = BITS[GEMM_RECIPES[recipe].a.dtype] / 8
    flops, dram = least_work(recipe, m, n, k)
    alignment = row_alignment_bytes(recipe, n, k)
    rule = gemm_rule.TILES.get(FAMILIES[family].rule)
    rows, cols, splits = (
        gemm_rule.chosen_tiles(rule, m, n, k, compute_units) if rule else _tile_choices(family)
    )
    count = np.ceil(m[:, None] / rows) * np.ceil(n[:, None] / cols) * splits
    busy = np.minimum(count, compute_units)
    summed = rows * cols if rule else (m * n)[:, None]
    waves = np.ceil(count / compute_units)
    if rule:
        waves = np.where(waves > 1, (waves + count / compute_units) / 2, waves)
    step_k = np.ceil(k[:, None] / splits * width / _K_STEP_BYTES) * _K_STEP_BYTES
    return Shapes(
        flops=flops,
        unit_flops=flops / compute_units,
        dram_bytes=dram,
        k_bytes=k * width,
        alignment=alignment,
        choices=TileChoices(
            flops=2 * rows * cols * step_k / width,
            k_bytes=step_k,
            load_bytes=step_k * (rows + cols),
            store_bytes=2 * rows * cols + np.zeros_like(busy),
            waves=waves,
            busy_units=busy,
            is_split=splits > 1,
            sum_bytes=4 * np.where(splits > 1, splits, 0.0) * summed,
            dram_bytes=dram[:, None],
            has_few_rows=(m[:, None] <= gemm_rule.MOST_FEW_ROWS) & bool(rule),
            is_misaligned=(k[:, None] * width) % _ROW_ALIGNMENT_BYTES != 0,
            alignment=alignment[:, None],
        ),
    )


@cache
def _tile_choices(family: str) -> tuple[Array, Array, Array]:
    """(rows, columns, split) of every choice of a family, as vectors of equal length."""
    tiles, splits = FAMILIES[family].tiles, FAMILIES[family].splits
    choices = [(*tile, split) for tile in tiles for split in splits] or [(1, 1, 1)]
    rows, cols, split = np.array(choices, dtype=float).T
    return rows, cols, split


def row_alignment_bytes(recipe: str, n: Array, k: Array) -> NDArray[np.int64]:
    """The largest divisor of 16, in bytes, of the row lengths of A, B and C."""
    spec = GEMM_RECIPES[recipe]
    read = (k * BITS[spec.a.dtype] / 8).astype(np.int64)
    written = (n * BITS[spec.out] / 8).astype(np.int64)
    alignment: NDArray[np.int64] = np.gcd(np.gcd(read, written), ALIGNED_BYTES)
    return alignment


def least_work(recipe: str, m: Array, n: Array, k: Array) -> tuple[Array, Array]:
    """(flops, bytes) of recipes.gemm_work for vectors of sizes; KeyError for a recipe."""
    spec = GEMM_RECIPES[recipe]
    return 2 * m * n * k, spec.a.nbytes(m, k) + spec.b.nbytes(n, k) + nbytes(spec.out, m * n)
