"""How an all-gather with a product is cut into tiles and chunks, as data; tests compile all tiles.

Which one runs, kernels.gather.plans says.
"""

from dataclasses import dataclass
from typing import Final

from kernels.gemm.rule import GemmConfig

MOST_CHUNKS: Final = 8  # of a shard; each has a flag
# Flags lie this many 32-bit words apart, a line of L2 each: programs that wait for one chunk do not
# ask for the line in which another chunk's flag is written.
FLAG_SPACING: Final = 32

# NVIDIA Hopper and later data centre GPUs. 128x256 with four stages fits in two parts alone.
WIDE: Final = (
    GemmConfig(m=128, n=256, k=64, num_warps=8, num_stages=4, parts=2, rate=1.0),
    GemmConfig(m=128, n=128, k=64, num_warps=8, num_stages=4, rate=0.85),
    GemmConfig(m=64, n=256, k=64, num_warps=4, num_stages=4, parts=2, rate=0.8),
    GemmConfig(m=64, n=128, k=64, num_warps=4, num_stages=5, rate=0.6),
)
NARROW: Final = (
    GemmConfig(m=128, n=256, k=128, num_warps=8, num_stages=4, parts=2, rate=1.0),
    GemmConfig(m=128, n=128, k=128, num_warps=8, num_stages=4, rate=0.9),
    GemmConfig(m=64, n=256, k=128, num_warps=4, num_stages=4, parts=2, rate=0.8),
    GemmConfig(m=64, n=128, k=128, num_warps=4, num_stages=5, rate=0.6),
)
# Less shared memory than Hopper, or no tensor memory unit: compiled only.
SMALL: Final = (GemmConfig(m=64, n=128, k=64, num_warps=8, num_stages=3, rate=1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """The cut of a shard's rows: `count` chunks of tiles_each * tile_rows rows.

    The last chunk takes what is left, one whole tile at least: the last tile of a shard that is no
    multiple of tile_rows is moved up to end with the shard, and must not reach into another chunk.
    """

    shard_rows: int
    tile_rows: int
    tiles_each: int
    count: int

    @property
    def tiles(self) -> int:
        """Tiles of a shard along its rows."""
        return -(-self.shard_rows // self.tile_rows)

    def tiles_of(self, chunk: int) -> int:
        """Tiles of a chunk along its rows."""
        first = chunk * self.tiles_each
        return (self.tiles if chunk == self.count - 1 else first + self.tiles_each) - first

    def rows(self, chunk: int) -> tuple[int, int]:
        """(first, end) of a chunk's rows within the shard."""
        each = self.tiles_each * self.tile_rows
        return chunk * each, self.shard_rows if chunk == self.count - 1 else (chunk + 1) * each


def chunks_of(shard_rows: int, tile_rows: int, wanted: int) -> Chunks:
    """At most `wanted` chunks of nearly as many tiles; raises ValueError for too few rows."""
    whole = shard_rows // tile_rows
    if whole < 1:
        raise ValueError(
            f"shard_rows: wanted at least one tile of {tile_rows} rows, got {shard_rows}"
        )
    tiles_each = -(-whole // max(1, min(wanted, MOST_CHUNKS)))
    count = -(-whole // tiles_each)
    return Chunks(shard_rows=shard_rows, tile_rows=tile_rows, tiles_each=tiles_each, count=count)
