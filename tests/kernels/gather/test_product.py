"""Products that follow arrival, every rank of 1 to 4, with all flags there or a rank's alone."""

from dataclasses import replace

import pytest
import torch
import triton
import triton.language as tl

from kernels.gather import plans
from kernels.gather import product as gathered_matmul
from kernels.gather.flags import FLAG_SPACING
from kernels.gather.plans import chunks_of
from kernels.gemm.rule import GemmConfig
from tests.kernels.gemm.gemm_reference import assert_close, product, random_scales

SMALL = GemmConfig(m=16, n=32, k=32, num_warps=4, num_stages=2, rate=1.0, group=2)
HALVES = replace(SMALL, n=64, parts=2, flat=False, group=1)
BF16, FP16, E4M3 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
# (rows of a shard, n, k): whole tiles; ragged in all; one tile and a bit; n below a unit
SHAPES = [(32, 64, 64), (50, 70, 48), (17, 33, 80), (16, 5, 32)]


def gathered(
    shape: tuple[int, int, int],
    world: int,
    dtype: torch.dtype,
    device: torch.device,
    how: tuple[int, int, GemmConfig],
) -> None:
    """Multiply as a rank and compare; every flag is at the turn, some beyond."""
    shard, n, k = shape
    rank, chunks, config = how
    a = torch.randn(world * shard, k).to(dtype).to(device)
    w = torch.randn(n, k).to(dtype).to(device)
    by = None
    if dtype == E4M3:
        by = (random_scales(world * shard, 1, device=device), random_scales(1, n, device=device))
    cut = chunks_of(shard, config.m, chunks)
    flags = torch.full((world, cut.count, FLAG_SPACING), 7, dtype=torch.int32, device=device)
    flags[-1] += 1
    state = torch.tensor([7, 0], dtype=torch.int32, device=device)
    c = torch.full((world * shard, -(-n // 8) * 8), 9.0, dtype=BF16, device=device)[:, :n]
    gathered_matmul.launch(a, w, c, by, flags, state, cut, config, rank=rank)
    one = torch.ones((), device=device)
    assert_close(c, product(a, w, *(by or (one, one))), fast_k=k if by else 32)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [BF16, FP16, E4M3])
def test_every_rank_has_the_product(
    shape: tuple[int, int, int], world: int, dtype: torch.dtype, device: torch.device
) -> None:
    for rank in range(world):
        config = HALVES if rank % 2 else SMALL
        gathered(shape, world, dtype, device, (rank, 1 + rank, config))


@pytest.mark.parametrize(("shard", "chunks"), [(64, 2), (100, 1), (100, 3), (100, 8)])
def test_any_number_of_chunks(chunks: int, shard: int, device: torch.device) -> None:
    gathered((shard, 40, 32), 2, BF16, device, (1, chunks, SMALL))


@pytest.mark.parametrize(
    ("config", "dtype"),
    [*((config, BF16) for config in plans.WIDE + plans.SMALL), *((c, E4M3) for c in plans.NARROW)],
)
def test_every_config_is_right(
    config: GemmConfig, dtype: torch.dtype, device: torch.device
) -> None:
    shape = (config.m + 8, config.n + 8, config.k + 16)
    gathered(shape, 2, dtype, device, (1, 2, config))


@pytest.mark.parametrize("units", [1, 3, 100])
def test_programs_share_the_tiles(
    units: int, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(gathered_matmul, "compute_units", lambda *_: units)
    gathered((40, 70, 32), 3, BF16, device, (2, 2, SMALL))


# Arguments of a kernel have no Python type, and the names of the literature.
# ruff: noqa: ANN001, N803
@triton.jit
def _places_kernel(places, sizes, TILES: tl.constexpr, GROUP: tl.constexpr) -> None:  # type: ignore[no-untyped-def]
    """Four numbers of every tile, in the order of the product."""
    tiles_m, tiles_n, tiles_each = tl.load(sizes), tl.load(sizes + 1), tl.load(sizes + 2)
    chunks, rank, world = tl.load(sizes + 3), tl.load(sizes + 4), tl.load(sizes + 5)
    for tile in range(TILES):
        source, chunk, tile_m, tile_n = gathered_matmul.place_of(
            tile, tiles_m, tiles_n, tiles_each, chunks, rank, world, GROUP
        )
        tl.store(places + 4 * tile, source)
        tl.store(places + 4 * tile + 1, chunk)
        tl.store(places + 4 * tile + 2, tile_m)
        tl.store(places + 4 * tile + 3, tile_n)


@pytest.mark.parametrize(("world", "shard", "columns", "wanted"), [(1, 70, 3, 1), (3, 70, 2, 3)])
@pytest.mark.parametrize("group", [1, 3, 8])
def test_tiles_follow_arrival_and_none_is_missing(
    world: int, shard: int, columns: int, wanted: int, group: int, device: torch.device
) -> None:
    cut = chunks_of(shard, 16, wanted)
    within = gathered_matmul.group_within_chunk(replace(SMALL, group=group), cut)
    assert 1 <= within <= group
    assert within == group or cut.count > 1
    tiles = world * cut.tiles * columns
    for rank in range(world):
        places = torch.full((tiles, 4), -1, dtype=torch.int32, device=device)
        sizes = (cut.tiles, columns, cut.tiles_each, cut.count, rank, world)
        given = torch.tensor(sizes, dtype=torch.int32, device=device)
        _places_kernel[(1,)](places, given, TILES=tiles, GROUP=within)
        found = [tuple(place) for place in places.tolist()]
        assert len(set(found)) == tiles
        sources = [source for source, _, _, _ in found]
        assert list(dict.fromkeys(sources)) == [(rank + step) % world for step in range(world)]
        for source, chunk, tile_m, tile_n in found:
            first, end = cut.rows(chunk)
            assert first <= 16 * tile_m < end
            assert 0 <= source < world
            assert 0 <= tile_n < columns
        by_shard = len(found) // world
        chunks = [chunk for _, chunk, _, _ in found[:by_shard]]
        assert chunks == sorted(chunks)
