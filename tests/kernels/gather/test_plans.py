"""How a shard is cut, the model of time, and what is chosen by it."""

import warnings
from dataclasses import replace
from runpy import run_module
from typing import Any

import pytest
import torch

from kernels.gather.plans import (
    H200_LINKS,
    MOST_CHUNKS,
    WIDE,
    Gathered,
    LinkTimes,
    Plan,
    ProductTimes,
    arrivals_s,
    choose,
    chunks_of,
    fused_s,
    link_times,
    product_times,
    sequence_s,
    warn_of_defaults,
)
from kernels.gemm.rule import GemmConfig

TILE = GemmConfig(m=64, n=64, k=64, num_warps=4, num_stages=2, rate=1.0)
WHAT = Gathered(world=4, shard_rows=256, k=512, n=128, dtype=torch.bfloat16)
LINK = LinkTimes(
    nccl_latency_s=1e-5,
    nccl_bytes_per_s=1e11,
    copy_latency_s=2e-6,
    copy_bytes_per_s=1e11,
    start_s=3e-6,
)
PRODUCT = ProductTimes(library_flops_per_s=1e14, own_flops_per_s=1e14, launch_s=1e-6)
LAYER = Gathered(world=8, shard_rows=1024, k=8192, n=3584, dtype=torch.bfloat16)


@pytest.mark.parametrize("wanted", [1, 2, 3, 4, 100])
@pytest.mark.parametrize(("rows", "tile"), [(64, 64), (65, 64), (300, 128), (512, 128), (1100, 64)])
def test_chunks_cover_a_shard_in_whole_tiles(rows: int, tile: int, wanted: int) -> None:
    cut = chunks_of(rows, tile, wanted)
    spans = [cut.rows(chunk) for chunk in range(cut.count)]
    assert 1 <= cut.count <= min(wanted, MOST_CHUNKS)
    assert [first for first, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == rows
    assert all((end - first) % tile == 0 for first, end in spans[:-1])
    assert spans[-1][1] - spans[-1][0] >= tile
    assert sum(cut.tiles_of(chunk) for chunk in range(cut.count)) == cut.tiles == -(-rows // tile)


def test_a_moved_up_tile_stays_in_its_chunk() -> None:
    for rows in range(64, 700, 7):
        for wanted in (1, 2, 3, 4):
            cut = chunks_of(rows, 64, wanted)
            for tile in range(cut.tiles):
                chunk = min(tile // cut.tiles_each, cut.count - 1)
                first, end = cut.rows(chunk)
                row = min(tile * 64, rows - 64)
                assert first <= row < row + 64 <= end, (rows, wanted, tile)


def test_fewer_rows_than_a_tile_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^shard_rows: wanted at least one tile of 64 rows"):
        chunks_of(63, 64, 1)


def test_chunks_arrive_one_after_another_and_the_last_with_all_bytes() -> None:
    cut = chunks_of(256, 64, 2)
    found = arrivals_s(WHAT, cut, LINK)
    assert len(found) == 4 * cut.count
    assert found[:2] == [0.0, 0.0]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(3 * WHAT.shard_bytes / 1e11 + 6 * 2e-6)


def test_scales_cost_a_copy_more_for_each_peer_and_not_for_each_chunk() -> None:
    tiny = replace(WHAT, world=8, k=16, dtype=torch.float8_e4m3fn)
    for chunks in (1, 2):
        found = arrivals_s(tiny, chunks_of(256, 64, chunks), LINK)
        assert found[-1] == pytest.approx(7 * (chunks + 0.5) * 2e-6, rel=0.1)


def test_a_fast_link_leaves_waves_of_tiles_and_a_slow_one_the_last_arrival_and_a_tile() -> None:
    fast = replace(LINK, copy_latency_s=0.0, copy_bytes_per_s=1e20)
    slow = replace(LINK, copy_bytes_per_s=1e7)
    cut, tiles = chunks_of(256, 64, 1), 4 * 4 * 2
    tile_s = 2 * 64 * 64 * 512 / (1e14 / 10)
    for link, expected in (
        (fast, 3e-6 + 1e-6 + -(-tiles // 10) * tile_s),
        (slow, 3e-6 + arrivals_s(WHAT, cut, slow)[-1] + tile_s),
    ):
        assert fused_s(WHAT, TILE, cut, link, PRODUCT, units=10) == pytest.approx(expected)


def test_defaults_of_a_world_size_are_those_of_the_next_smaller_one() -> None:
    assert link_times(1) is H200_LINKS[2]
    assert link_times(6) is H200_LINKS[4]
    assert link_times(16) is H200_LINKS[8]
    assert product_times(torch.float16) is product_times(torch.bfloat16)


def test_times_of_an_h200_are_not_taken_for_another_gpu_in_silence() -> None:
    with pytest.warns(UserWarning, match=r"this is NVIDIA A100.*Tuning\(link=\.\.\."):
        warn_of_defaults("NVIDIA A100-SXM4-80GB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_defaults("NVIDIA H200")


# us on 2 x H200, 2026-11-21, CUDA graphs: (M, N, K), NCCL + cuBLAS, ours with the best tile
MEASURED = [
    ((4096, 1792, 4096), 175, 102),
    ((16384, 1792, 4096), 629, 330),
    ((8192, 3584, 8192), 928, 634),
    ((16384, 6656, 16384), 6055, 4806),
]


@pytest.mark.parametrize(("shape", "sequence", "fused"), MEASURED)
def test_it_comes_near_what_was_measured(
    shape: tuple[int, int, int], sequence: float, fused: float
) -> None:
    m, n, k = shape
    what = Gathered(world=2, shard_rows=m // 2, k=k, n=n, dtype=torch.bfloat16)
    link, product = link_times(2), product_times(torch.bfloat16)
    tile = WIDE[0]
    cut = chunks_of(m // 2, tile.m, 1)
    assert 1e6 * sequence_s(what, link, product) == pytest.approx(sequence, rel=0.1)
    found = 1e6 * fused_s(what, tile, cut, link, product, units=132)
    assert found == pytest.approx(fused, rel=0.15)


def chosen(what: Gathered, **how: Any) -> Plan:
    plan = choose(what, WIDE, units=132, **how)
    assert plan is not None
    return plan


def test_large_shards_are_fused_and_what_is_slower_is_not() -> None:
    assert chosen(LAYER).is_faster
    slow = ProductTimes(library_flops_per_s=775e12, own_flops_per_s=100e12)
    assert not chosen(LAYER, product=slow).is_faster


def test_no_tile_fits_into_fewer_rows_than_it_has() -> None:
    assert choose(replace(LAYER, shard_rows=63), WIDE, units=132) is None
    assert chosen(replace(LAYER, shard_rows=64)).tile.m == 64


@pytest.mark.parametrize("shard_rows", [64, 100, 512, 4096])
def test_the_cut_fits_the_tile_and_what_was_asked_for(shard_rows: int) -> None:
    plan = chosen(replace(LAYER, shard_rows=shard_rows), chunks=(4,))
    assert plan.cut.tile_rows == plan.tile.m <= shard_rows
    assert plan.cut.shard_rows == shard_rows
    assert plan.cut.count <= 4


def test_a_slow_link_is_worth_chunks_and_a_fast_one_is_not() -> None:
    slow = LinkTimes(
        nccl_latency_s=3e-5, nccl_bytes_per_s=2e10, copy_bytes_per_s=2e10, copy_latency_s=1e-6
    )
    fast = replace(slow, copy_bytes_per_s=1e15, copy_latency_s=0.0)
    assert chosen(LAYER, link=slow).cut.count > 1
    assert chosen(LAYER, link=fast).cut.count == 1


def test_eager_calls_cost_the_host_more_than_small_products_take() -> None:
    small = chosen(replace(LAYER, k=4096, n=1792, world=2))
    large = chosen(replace(LAYER, k=16384, n=6656))
    assert (small.is_faster, small.is_faster_eagerly) == (True, False)
    assert (large.is_faster, large.is_faster_eagerly) == (True, True)


def test_the_tool_of_the_record_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["time_eager_gathers"])
    with pytest.raises(SystemExit, match=r"OUT\.csv: wanted one path and .* 2 GPUs, got 0 and \d"):
        run_module("tools.time_eager_gathers", run_name="__main__")
