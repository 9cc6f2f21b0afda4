"""How an int4 product is cut into blocks: the configurations of each kernel, and what they need.

No kernel is launched here and none imported, so that configurations can be checked on any machine.
Which configuration runs says kernels.int4.table.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton

from kernels.common.architecture import SHARED_MEMORY_LIMIT
from kernels.common.constants import KernelConstants
from kernels.int4.packing import UNIT_COLUMNS, UNIT_ROWS, Int4Weights

# How kernels.int4.direct removes the zero point.
CHAIN: Final = 0
CENTRE: Final = 1
ZEROS: Final = 2
# How kernels.int4.staged multiplies.
MATRIX: Final = {"sync": 0, "group": 1, "overlapped": 2}
# Token tile -> units of activations that a warp of kernels.int4.direct has registers for without
# spilling (the compile tests walk them).
MOST_UNITS: Final = {8: 8, 16: 2}
_BETWEEN_BUFFERS: Final = 1024  # bytes that aligning the buffers can cost


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """A product in blocks of rows x tokens x a part of K.

    token_tile  tokens of a block
    split       parts of K that go to different blocks
    """

    token_tile: int
    split: int
    num_warps: int

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        raise NotImplementedError

    def fits(self, weights: Int4Weights) -> bool:  # noqa: ARG002 (of the kernels in Gluon)
        """Whether rows and K divide evenly among blocks and warps, which have room for them."""
        return True

    def misfit(self, weights: Int4Weights) -> str | None:
        """Why the configuration does not fit the weights, and what would; None where it fits."""
        if self.fits(weights):
            return None
        return (
            f"got {self}, wanted one that divides {weights.padded_rows} rows x {weights.k} columns "
            "and fits in shared memory (its method fits)"
        )

    def cut(self, weights: Int4Weights, tokens: int) -> tuple[int, int, int]:
        """(tiles along the rows, tiles along the tokens, parts of K)."""
        down = triton.cdiv(tokens, self.token_tile)
        return triton.cdiv(weights.padded_rows, self.block_rows), down, self.split

    def grid(self, weights: Int4Weights, tokens: int) -> tuple[int, int, int]:
        """Blocks as they are launched: here (rows, tokens, parts of K)."""
        return self.cut(weights, tokens)

    def exchange_sizes(self, weights: Int4Weights, tokens: int) -> tuple[int, int]:
        """(fp32 partial sums, counters) by which the parts of K of a product meet."""
        across, down, split = self.cut(weights, tokens)
        if split == 1:
            return 0, 0
        rows = triton.next_power_of_2(self.block_rows)
        return across * down * split * rows * self.token_tile, across * down


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4PlainConfig(BlockConfig):
    """kernels.int4.plain: blocks of 16 * row_tiles rows; it fits any weights."""

    row_tiles: int

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return UNIT_ROWS * self.row_tiles

    def constants(self, k: int, group: int, *, zeros: bool) -> PlainConstants:
        """What the kernel is compiled for, of weights of this kind."""
        return PlainConstants(
            row_tiles=self.row_tiles,
            token_tile=self.token_tile,
            split=self.split,
            piece=32 if group == 32 else 64,
            group=0 if group == k else group,
            has_zeros=zeros,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4DirectConfig(BlockConfig):
    """kernels.int4.direct: each warp owns a slice of K and streams its weights to registers.

    row_tiles   tiles of 16 rows a block works through, one after another
    depth       tiles whose weights are in flight at once
    token_tile  8 or 16

    K is cut in `split` parts, and each of these among the warps.
    """

    row_tiles: int
    depth: int

    def __post_init__(self) -> None:
        """The kernel joins the sums of up to 8 tiles."""
        assert self.token_tile in MOST_UNITS
        assert 1 <= self.row_tiles <= 8

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return UNIT_ROWS * self.row_tiles

    def fits(self, weights: Int4Weights) -> bool:
        """Whether tiles and units divide evenly, and a warp has registers for its units."""
        # groups of 32 take masks, for which blocks of 16 tokens have no registers
        if weights.group == 32 and self.token_tile > 8:
            return False
        units, tiles = weights.k // UNIT_COLUMNS, weights.padded_rows // UNIT_ROWS
        warps = self.split * self.num_warps
        has_registers = units <= MOST_UNITS[self.token_tile] * warps
        return units % warps == 0 and has_registers and tiles % self.row_tiles == 0

    def constants(self, k: int, group: int, dtype: torch.dtype, *, zeros: bool) -> DirectConstants:
        """What the kernel is compiled for, of weights of this kind."""
        per_unit = groups_per_unit(k, group)
        # with groups of 32 a correction costs as much as the subtractions it saves
        symmetric = CHAIN if dtype == torch.bfloat16 and per_unit != 4 else CENTRE
        return DirectConstants(
            k=k,
            groups_per_unit=per_unit,
            remove=ZEROS if zeros else symmetric,
            row_tiles=self.row_tiles,
            token_tile=self.token_tile,
            split=self.split,
            units=k // UNIT_COLUMNS // self.split // self.num_warps,
            depth=min(self.depth, self.row_tiles),
            warps=self.num_warps,
        )


@dataclass(frozen=True, slots=True)
class StagedConstants(KernelConstants):
    """What kernels.int4.staged is compiled for.

    units            of 128 columns in a block's part of K
    groups_per_unit  scales per 128 columns; 0 for one per row
    unroll           units per slot of the ring
    matrix           a value of MATRIX
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4StagedConfig(BlockConfig):
    """kernels.int4.staged: weights and activations pass through a ring in shared memory.

    rows        rows of a block: 64, 128 or 256
    stages      slots of the ring
    unroll      units of 128 columns per slot
    token_tile  8 to 128, a power of two
    matrix      how it multiplies: "sync" (mma.sync), "group" (wgmma), "overlapped" (wgmma, the next
                unit is dequantised meanwhile)
    """

    rows: int
    stages: int
    unroll: int
    matrix: str

    def __post_init__(self) -> None:
        """wgmma takes 64 rows and columns in powers of two."""
        assert self.rows in (64, 128, 256)
        assert self.token_tile in (8, 16, 32, 64, 128)
        assert self.matrix in MATRIX

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.rows

    def fits(self, weights: Int4Weights) -> bool:
        """Whether rows and slots divide evenly, and shared memory has room for the ring."""
        units = weights.k // UNIT_COLUMNS
        if units % (self.split * self.unroll) or weights.padded_rows % self.rows:
            return False
        needed = self.shared_bytes(weights.k, weights.group, zeros=weights.zeros is not None)
        return needed <= SHARED_MEMORY_LIMIT[90]

    def constants(self, k: int, group: int, *, zeros: bool) -> StagedConstants:
        """What the kernel is compiled for, of weights of this kind."""
        units = k // UNIT_COLUMNS // self.split
        return StagedConstants(
            units=units,
            groups_per_unit=groups_per_unit(k, group),
            has_zeros=zeros,
            rows=self.rows,
            token_tile=self.token_tile,
            split=self.split,
            stages=min(self.stages, units // self.unroll),
            unroll=self.unroll,
            matrix=MATRIX[self.matrix],
            warps=self.num_warps,
        )

    def shared_bytes(self, k: int, group: int, *, zeros: bool) -> int:
        """Most shared memory of a block: ring, scales, zero points, barriers."""
        c = self.constants(k, group, zeros=zeros)
        groups = triton.next_power_of_2(max(1, c.units * c.groups_per_unit))
        scales = 2 * groups * self.rows * (2 if zeros else 1)
        return c.stages * (c.slot_bytes + 8) + scales + _BETWEEN_BUFFERS


MOST_PARTS_OF_K: Final = 8  # of kernels.int4.specialised; its word would hold 15
_MOST_STRIPS: Final = 8
_LEAST_STRIP_TOKENS: Final = 8  # the smallest tile of wgmma


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Int4SpecialisedConfig(BlockConfig):
    """kernels.int4.specialised: a warp fetches, warpgroups dequantise and multiply.

    parts        multiplying warpgroups, 2 to 4, each with rows of its own
    part_rows    64 or 128
    token_tile   16 to 128, a power of two
    slots        of the ring, of 128 columns each
    """

    parts: int = 2
    part_rows: int
    slots: int
    num_warps: int = 4

    def __post_init__(self) -> None:
        """Check sizes; of sums a thread has 128 registers at most, 64 and 32 with 3 and 4 parts.

        The threads of more multiplying warpgroups have fewer registers, see `registers`.
        """
        assert self.parts in (2, 3, 4)
        assert self.part_rows in (64, 128)
        assert self.token_tile in (16, 32, 64, 128)
        assert self.part_rows * self.token_tile <= {2: 1 << 14, 3: 1 << 13, 4: 1 << 12}[self.parts]
        assert self.slots >= 2
        assert self.num_warps == 4
        assert 1 <= self.split <= MOST_PARTS_OF_K

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.parts * self.part_rows

    @property
    def registers(self) -> int:
        """Registers for each thread of every multiplying warpgroup but the first.

        Triton gives the first one the registers that the others leave.
        """
        return {2: 232, 3: 160, 4: 112}[self.parts]

    def shared_bytes(self, k: int, group: int, *, zeros: bool) -> int:
        """Most shared memory of a block: ring and barriers."""
        c = self.constants(k, group, zeros=zeros)
        return self.slots * (c.weight_bytes + c.slice_bytes + 16) + _BETWEEN_BUFFERS

    def fits(self, weights: Int4Weights) -> bool:
        """Whether `misfit` has nothing to say."""
        return self.misfit(weights) is None

    def misfit(self, weights: Int4Weights) -> str | None:
        """Why the configuration does not fit the weights, and what would; None where it fits."""
        if weights.group == 32:
            return f"got {self} for groups of 32, wanted weights in groups of 64 columns or more"
        units = weights.k // UNIT_COLUMNS
        if not has_work(units, self.split):
            largest = next(s for s in range(self.split, 0, -1) if has_work(units, s))
            return (
                f"got {self}, whose split leaves a part of K without any of its {units} units of "
                f"{UNIT_COLUMNS} columns, wanted another split, as {largest}"
            )
        limit = SHARED_MEMORY_LIMIT[90]
        needed = self.shared_bytes(weights.k, weights.group, zeros=weights.zeros is not None)
        if needed > limit:
            return (
                f"got {self}, whose ring takes {needed:,} bytes of shared memory, wanted {limit:,} "
                "at most: fewer slots, part_rows or tokens"
            )
        return None

    def grid(self, weights: Int4Weights, tokens: int) -> tuple[int, int, int]:
        """Blocks: (parts of K, rows, tokens).

        GPUs start blocks along the first side first, so that parts of a tile start together.
        """
        across, down, split = self.cut(weights, tokens)
        return split, across, down

    def exchange_sizes(self, weights: Int4Weights, tokens: int) -> tuple[int, int]:
        """(fp32 partial sums, counters) by which the parts of K of a product meet.

        For each warpgroup's rows of a tile, the sums of every part of K and one counter.
        """
        across, down, split = self.cut(weights, tokens)
        if split == 1:
            return 0, 0
        tiles = across * down * self.parts
        return tiles * split * self.part_rows * self.token_tile, tiles

    def constants(self, k: int, group: int, *, zeros: bool) -> SpecialisedConstants:
        """What the kernel is compiled for, of weights of this kind."""
        units = k // UNIT_COLUMNS
        return SpecialisedConstants(
            all_units=units,
            units=triton.cdiv(units, self.split),
            groups_per_unit=groups_per_unit(k, group),
            has_zeros=zeros,
            rows=self.part_rows,
            parts=self.parts,
            token_tile=self.token_tile,
            split=self.split,
            slots=self.slots,
            registers=self.registers,
        )


Int4Config = Int4PlainConfig | Int4DirectConfig | Int4StagedConfig | Int4SpecialisedConfig


def has_work(units: int, split: int) -> bool:
    """Whether each of the equal parts of K, of which the last may be shorter, has a unit."""
    return triton.cdiv(units, split) * (split - 1) < units


def groups_per_unit(k: int, group: int) -> int:
    """Groups of columns in a unit of 128; 0 for one scale per row."""
    return 0 if group == k else UNIT_COLUMNS // group
