"""What is chosen: fused where the model expects it to be faster, else in sequence."""

from dataclasses import replace

import pytest
import torch

from kernels.gather import configs as all_gather_configs
from kernels.gather.model import Gathered, LinkTimes, ProductTimes
from kernels.gather.plans import choose

LAYER = Gathered(world=8, shard_rows=1024, k=8192, n=3584, dtype=torch.bfloat16)


def test_large_shards_are_fused_and_what_is_slower_is_not() -> None:
    large = choose(LAYER, all_gather_configs.WIDE, units=132)
    assert large is not None
    assert large.is_faster
    slow = ProductTimes(library_flops_per_s=775e12, own_flops_per_s=100e12)
    poor = choose(LAYER, all_gather_configs.WIDE, units=132, product=slow)
    assert poor is not None
    assert not poor.is_faster


def test_no_tile_fits_into_fewer_rows_than_it_has() -> None:
    few = replace(LAYER, shard_rows=63)
    assert choose(few, all_gather_configs.WIDE, units=132) is None
    some = choose(replace(LAYER, shard_rows=64), all_gather_configs.WIDE, units=132)
    assert some is not None
    assert some.tile.m == 64


@pytest.mark.parametrize("shard_rows", [64, 100, 512, 4096])
def test_the_cut_fits_the_tile_and_what_was_asked_for(shard_rows: int) -> None:
    what = replace(LAYER, shard_rows=shard_rows)
    plan = choose(what, all_gather_configs.WIDE, units=132, chunks=(4,))
    assert plan is not None
    assert plan.cut.tile_rows == plan.tile.m <= shard_rows
    assert plan.cut.shard_rows == shard_rows
    assert plan.cut.count <= 4


def test_a_slow_link_is_worth_chunks_and_a_fast_one_is_not() -> None:
    slow = LinkTimes(
        nccl_latency_s=3e-5, nccl_bytes_per_s=2e10, copy_bytes_per_s=2e10, copy_latency_s=1e-6
    )
    fast = replace(slow, copy_bytes_per_s=1e15, copy_latency_s=0.0)
    chosen = [choose(LAYER, all_gather_configs.WIDE, units=132, link=link) for link in (slow, fast)]
    assert chosen[0] is not None
    assert chosen[1] is not None
    assert chosen[0].cut.count > 1
    assert chosen[1].cut.count == 1


def test_eager_calls_cost_the_host_more_than_small_products_take() -> None:
    small = choose(replace(LAYER, k=4096, n=1792, world=2), all_gather_configs.WIDE, units=132)
    large = choose(replace(LAYER, k=16384, n=6656), all_gather_configs.WIDE, units=132)
    assert small is not None
    assert large is not None
    assert (small.is_faster, small.is_faster_eagerly) == (True, False)
    assert (large.is_faster, large.is_faster_eagerly) == (True, True)
