"""A persistent product that follows the arrival of its left operand, shard by shard.

    C[world * shard, N] bf16 = (A @ W[N, K].T) * scale_a * scale_b

A [world * shard, K] is the buffer that an all-gather fills: slot s holds the shard of rank s. Rank
r multiplies its own shard first, then those of r + 1, r + 2, ..., the order in which they arrive
when every rank pushes to r - 1, r - 2, ... A tile waits for the flag of its chunk, see
kernels.gather.flags; all columns of a chunk's rows come before those of the next, so that there is
much to do per byte that has arrived.

A tile at the end of a shard that is no multiple of its rows is moved up: it computes a few rows
again, which its neighbour writes with the same values, and never reads what has not arrived.
"""

from dataclasses import replace

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units, has_tensor_memory_unit
from kernels.common.tiles import tile_at, tile_descriptor
from kernels.gather.flags import FLAG_SPACING, wait_until
from kernels.gather.plans import Chunks
from kernels.gemm.axiswise import store_tile
from kernels.gemm.rule import GemmConfig


@triton.jit
def place_of(tile, TILES_M, TILES_N, TILES_EACH, CHUNKS, RANK, WORLD, GROUP: tl.constexpr):
    """(rank whose shard it is, its chunk, row and column of tiles in the shard) of a tile."""
    in_shard = TILES_M * TILES_N
    source = (tile // in_shard + RANK) % WORLD
    tile_m, tile_n = tile_at(tile % in_shard, TILES_M, TILES_N, GROUP)
    return source, tl.minimum(tile_m // TILES_EACH, CHUNKS - 1), tile_m, tile_n


@triton.jit(do_not_specialize=["RANK", "WORLD", "CHUNKS", "TILES_EACH"])
def _gathered_kernel(
    a,
    w,
    c,
    scale_a,
    scale_b,
    flags,
    state,
    SHARD,
    N,
    K,
    RANK,
    WORLD,
    CHUNKS,
    TILES_EACH,
    SPACING: tl.constexpr,
    SCALED: tl.constexpr,
    WIDEN: tl.constexpr,
    PTX: tl.constexpr,
    PROGRAMS: tl.constexpr,
    CONFIG: tl.constexpr,
):
    """Every PROGRAMS-th tile. a, w and c are descriptors. WIDEN: multiply in fp32."""
    turn = tl.load(state)
    SHAPE: tl.constexpr = (CONFIG.m, CONFIG.n)
    tiles_m = tl.cdiv(SHARD, CONFIG.m)
    tiles_n = tl.cdiv(N, CONFIG.n)
    steps = tl.cdiv(K, CONFIG.k)
    tiles = WORLD * tiles_m * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=CONFIG.flat):
        source, chunk, tile_m, tile_n = place_of(
            tile, tiles_m, tiles_n, TILES_EACH, CHUNKS, RANK, WORLD, CONFIG.group
        )
        flag = flags + (source * CHUNKS + chunk) * SPACING
        row = source * SHARD + tl.minimum(tile_m * CONFIG.m, SHARD - CONFIG.m)
        row += wait_until(flag, turn, PTX)
        col = tile_n * CONFIG.n
        sums = tl.zeros(SHAPE, dtype=tl.float32)
        for step in range(steps):
            left = a.load([row, step * CONFIG.k])
            right = w.load([col, step * CONFIG.k]).T
            if WIDEN:
                left, right = left.to(tl.float32), right.to(tl.float32)
            sums = tl.dot(left, right, sums)
        by_rows = None
        if SCALED:
            by_rows = tl.load(scale_a + row + tl.arange(0, CONFIG.m))[:, None]
        store_tile(c, sums, scale_b, by_rows, row, col, N, SCALED, CONFIG.parts)


def launch(
    a: torch.Tensor,
    w: torch.Tensor,
    c: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor] | None,
    flags: torch.Tensor,
    state: torch.Tensor,
    chunks: Chunks,
    config: GemmConfig,
    *,
    rank: int,
    units: int | None = None,
) -> None:
    """Fill c, for operands that kernels.gather.all_gather_matmul checked.

    scales: of the rows of a [world * shard] and of w [N], fp32; flags [world, chunks, FLAG_SPACING]
    and state of this turn, which kernels.gather.flags.begin has counted; units: as of
    kernels.common.architecture.compute_units.
    """
    world = a.shape[0] // chunks.shard_rows
    n, k = w.shape
    tiles = world * chunks.tiles * triton.cdiv(n, config.n)
    programs = compute_units(a, units)
    scale_a, scale_b = scales or (None, None)
    _gathered_kernel[(min(tiles, programs),)](
        tile_descriptor(a, [config.m, config.k]),
        tile_descriptor(w, [config.n, config.k]),
        tile_descriptor(c, [config.m, config.n // config.parts]),
        scale_a,
        scale_b,
        flags,
        state,
        chunks.shard_rows,
        n,
        k,
        rank,
        world,
        chunks.count,
        chunks.tiles_each,
        SPACING=FLAG_SPACING,
        SCALED=scales is not None,
        # The interpreter holds bf16 as bits and multiplies those; fp32 is exact there.
        WIDEN=not a.is_cuda,
        PTX=has_tensor_memory_unit(a),
        PROGRAMS=programs,
        CONFIG=replace(config, group=group_within_chunk(config, chunks)),
        num_warps=config.num_warps,
        num_stages=config.num_stages,
    )


def group_within_chunk(config: GemmConfig, chunks: Chunks) -> int:
    """Tiles walked down before the next column: so many that no group reaches into another chunk.

    One that did would wait for the later chunk in the first column of the earlier one.
    """
    if chunks.count == 1:
        return config.group
    return max(size for size in range(1, config.group + 1) if chunks.tiles_each % size == 0)
