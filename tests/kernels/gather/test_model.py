"""The model of time: limits that can be computed by hand, and what was measured."""

import warnings
from dataclasses import replace

import pytest
import torch

from kernels.gather import configs as all_gather_configs
from kernels.gather.configs import chunks_of
from kernels.gather.model import (
    H200_LINKS,
    Gathered,
    LinkTimes,
    ProductTimes,
    arrivals_s,
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


def test_a_sequence_is_the_sum_of_its_parts() -> None:
    gather = 1e-5 + 3 * 256 * 512 * 2 / 1e11
    expected = gather + 1e-6 + 2 * 1024 * 512 * 128 / 1e14
    assert sequence_s(WHAT, LINK, PRODUCT) == pytest.approx(expected)


def test_scales_travel_with_fp8_rows() -> None:
    narrow = replace(WHAT, dtype=torch.float8_e4m3fn)
    assert narrow.shard_bytes == 256 * (512 + 4)
    assert WHAT.shard_bytes == 256 * 512 * 2


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


def test_a_fast_link_leaves_waves_of_tiles() -> None:
    link = replace(LINK, copy_latency_s=0.0, copy_bytes_per_s=1e20)
    tile_s = 2 * 64 * 64 * 512 / (1e14 / 10)
    tiles = 4 * 4 * 2
    expected = 3e-6 + 1e-6 + -(-tiles // 10) * tile_s
    found = fused_s(WHAT, TILE, chunks_of(256, 64, 1), link, PRODUCT, units=10)
    assert found == pytest.approx(expected)


def test_a_slow_link_leaves_the_last_arrival_and_a_tile() -> None:
    link = replace(LINK, copy_bytes_per_s=1e7)
    cut = chunks_of(256, 64, 1)
    tile_s = 2 * 64 * 64 * 512 / (1e14 / 10)
    expected = 3e-6 + arrivals_s(WHAT, cut, link)[-1] + tile_s
    found = fused_s(WHAT, TILE, cut, link, PRODUCT, units=10)
    assert found == pytest.approx(expected)


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
    tile = all_gather_configs.WIDE[0]
    cut = chunks_of(m // 2, tile.m, 1)
    assert 1e6 * sequence_s(what, link, product) == pytest.approx(sequence, rel=0.1)
    found = 1e6 * fused_s(what, tile, cut, link, product, units=132)
    assert found == pytest.approx(fused, rel=0.15)
