"""What the int4 kernels are compiled for: a configuration (kernels.int4.rule) and kind of weights.

Kernels take these whole, as one constexpr.
"""

from dataclasses import dataclass
from typing import Final, Self

import torch
import triton

from kernels.common.tiles import KernelConstants
from kernels.int4.rule import (
    MATRIX,
    UNIT_COLUMNS,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4SpecialisedConfig,
    Int4StagedConfig,
    WeightSizes,
)

# How kernels.int4.direct removes the zero point.
CHAIN: Final = 0
CENTRE: Final = 1
ZEROS: Final = 2
_MOST_STRIPS: Final = 8
_LEAST_STRIP_TOKENS: Final = 8  # the smallest tile of wgmma


@dataclass(frozen=True, slots=True)
class PlainConstants:
    """What kernels.int4.plain is compiled for.

    piece   columns multiplied at once: 32 or 64
    group   columns per scale, 0 for one per row
    """

    row_tiles: int
    token_tile: int
    split: int
    piece: int
    group: int
    has_zeros: bool

    @classmethod
    def of(cls, config: Int4PlainConfig, weights: WeightSizes) -> Self:
        """For weights of this kind."""
        return cls(
            row_tiles=config.row_tiles,
            token_tile=config.token_tile,
            split=config.split,
            piece=32 if weights.group == 32 else 64,
            group=0 if weights.group == weights.k else weights.group,
            has_zeros=weights.zeros is not None,
        )


@dataclass(frozen=True, slots=True)
class DirectConstants(KernelConstants):
    """What kernels.int4.direct is compiled for.

    k                the columns of all weights
    groups_per_unit  scales per 128 columns; 0 for one per row
    remove           the zero point: CHAIN, CENTRE or ZEROS
    units            of 128 columns that a warp works on
    """

    k: int
    groups_per_unit: int
    remove: int
    row_tiles: int
    token_tile: int
    split: int
    units: int
    depth: int
    warps: int

    @property
    def padded_tiles(self) -> int:
        """row_tiles, rounded up to a power of two."""
        return triton.next_power_of_2(self.row_tiles)

    @property
    def groups(self) -> int:
        """Scales of a row."""
        return max(1, self.groups_per_unit * self.k // UNIT_COLUMNS)

    @classmethod
    def of(cls, config: Int4DirectConfig, weights: WeightSizes, dtype: torch.dtype) -> Self:
        """For weights of this kind."""
        per_unit = groups_per_unit(weights)
        # with groups of 32 a correction costs as much as the subtractions it saves
        symmetric = CHAIN if dtype == torch.bfloat16 and per_unit != 4 else CENTRE
        return cls(
            k=weights.k,
            groups_per_unit=per_unit,
            remove=symmetric if weights.zeros is None else ZEROS,
            row_tiles=config.row_tiles,
            token_tile=config.token_tile,
            split=config.split,
            units=weights.k // UNIT_COLUMNS // config.split // config.num_warps,
            depth=min(config.depth, config.row_tiles),
            warps=config.num_warps,
        )


@dataclass(frozen=True, slots=True)
class StagedConstants(KernelConstants):
    """What kernels.int4.staged is compiled for.

    units            of 128 columns in a block's part of K
    groups_per_unit  scales per 128 columns; 0 for one per row
    unroll           units per slot of the ring
    matrix           a place in MATRIX
    """

    units: int
    groups_per_unit: int
    has_zeros: bool
    rows: int
    token_tile: int
    split: int
    stages: int
    unroll: int
    matrix: int
    warps: int

    @property
    def slice_columns(self) -> int:
        """Columns of the activations that are multiplied at once."""
        return 32 if self.groups_per_unit == 4 else 64

    @property
    def slices(self) -> int:
        """Slices of the activations in a unit: products that it takes."""
        return UNIT_COLUMNS // self.slice_columns

    @property
    def slot_bytes(self) -> int:
        """Bytes of weights and activations in a slot of the ring."""
        return self.unroll * (self.rows * 64 + self.token_tile * 256)

    @classmethod
    def of(cls, config: Int4StagedConfig, weights: WeightSizes) -> Self:
        """For weights of this kind."""
        units = weights.k // UNIT_COLUMNS // config.split
        return cls(
            units=units,
            groups_per_unit=groups_per_unit(weights),
            has_zeros=weights.zeros is not None,
            rows=config.rows,
            token_tile=config.token_tile,
            split=config.split,
            stages=min(config.stages, units // config.unroll),
            unroll=config.unroll,
            matrix=MATRIX.index(config.matrix),
            warps=config.num_warps,
        )


@dataclass(frozen=True, slots=True)
class SpecialisedConstants(KernelConstants):
    """What kernels.int4.specialised is compiled for.

    all_units        of 128 columns in K
    units            of a block's part of K; the last part may have fewer
    groups_per_unit  scales per 128 columns; 0 for one per row
    rows             of each of a block's parts
    parts            multiplying warpgroups
    slots            of the ring, of 128 columns each
    registers        for each thread of every multiplying warpgroup but the first
    """

    all_units: int
    units: int
    groups_per_unit: int
    has_zeros: bool
    rows: int
    parts: int
    token_tile: int
    split: int
    slots: int
    registers: int

    @property
    def boxes(self) -> int:
        """Boxes in which the tensor memory unit fetches the weights of a unit: 1, or one a part."""
        return 1 if self.parts in (2, 4) else self.parts  # sides of a box are powers of two

    @property
    def box_rows(self) -> int:
        """Rows of weights in a box."""
        return self.parts * self.rows // self.boxes

    @property
    def boxes_per_unit(self) -> int:
        """Scales of a row that come with 128 columns; one scale per row comes with each of them."""
        return max(1, self.groups_per_unit)

    @property
    def strips(self) -> int:
        """Strips of tokens in which sums are stored, a power of two.

        Of a strip a thread has 32 sums at most. There is one for each part of K at least where
        their number is a power of two, and eight where it is not; fewer for very few tokens.
        """
        least = max(1, self.rows * self.token_tile // (128 * 32))
        wanted = self.split if self.split & (self.split - 1) == 0 else _MOST_STRIPS
        return min(max(least, wanted), self.token_tile // _LEAST_STRIP_TOKENS)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parts' weights, scales and zeros in a slot."""
        entries = self.boxes_per_unit * (2 if self.has_zeros else 1)
        return self.parts * self.rows * (UNIT_COLUMNS // 2 + 2 * entries)

    @property
    def slice_bytes(self) -> int:
        """Bytes of a slot's activations."""
        return self.token_tile * UNIT_COLUMNS * 2

    @classmethod
    def of(cls, config: Int4SpecialisedConfig, weights: WeightSizes) -> Self:
        """For weights of this kind."""
        units = weights.k // UNIT_COLUMNS
        return cls(
            all_units=units,
            units=triton.cdiv(units, config.split),
            groups_per_unit=groups_per_unit(weights),
            has_zeros=weights.zeros is not None,
            rows=config.part_rows,
            parts=config.parts,
            token_tile=config.token_tile,
            split=config.split,
            slots=config.slots,
            # Triton gives the first one the registers that the others leave
            registers={2: 232, 3: 160, 4: 112}[config.parts],
        )


def groups_per_unit(weights: WeightSizes) -> int:
    """Groups of columns in a unit of 128; 0 for one scale per row."""
    return 0 if weights.group == weights.k else UNIT_COLUMNS // weights.group
