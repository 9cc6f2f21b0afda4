"""The equations of the calibrated model: hand arithmetic, limits and monotony."""

import numpy as np
import pytest

from roofcal.core.recipes import GEMM_RECIPES, gemm_work
from roofcal.ops.gemm.model import GROUPS, evaluate, groups_of, packed_parts
from roofcal.ops.gemm.tiles import FAMILIES, describe
from tests.roofcal.calibrate.probe_runs import TRUTH, seconds, shapes

FREE = {"sustained_flops_per_s": 1e18, "dram_bytes_per_s": 1e18}


def one(
    m: int, n: int, k: int, changed: dict[str, float] | None = None, tiles: str = "tile_128x128"
) -> float:
    sizes = (np.array([float(x)]) for x in (m, n, k))
    return float(seconds("bf16", tiles, TRUTH | (changed or {}), *sizes)[0])


@pytest.mark.parametrize("recipe", GEMM_RECIPES)
def test_work_is_that_of_the_vocabulary(recipe: str) -> None:
    m, n, k = shapes(20)
    shapes_of_points = describe(recipe, m, n, k, "tile_128x128", 132)
    for i in range(20):
        work = gemm_work(GEMM_RECIPES[recipe], int(m[i]), int(n[i]), int(k[i]))
        assert shapes_of_points.flops[i] == work.flops
        assert shapes_of_points.dram_bytes[i] == pytest.approx(work.dram_bytes, rel=1e-12)


def test_a_tile_by_hand() -> None:
    # One 128 x 128 tile, K = 4096 in bf16: 8192 bytes of K.
    math = 2 * 128 * 128 * 4096 / 1.2e13
    load = 8192 * 256 / 1.5e13  # one unit has all of the cache
    latency = 8192 * 6e-10
    step = (math**4 + load**4 + latency**4) ** 0.25
    dram = (128 * 4096 * 2 * 2 + 128 * 128 * 2) / 4.1e12
    power = 2 * 128 * 128 * 4096 / 7e14
    work = 3e-6 + (step**4 + dram**4) ** 0.25
    expected = (work**4 + power**4) ** 0.25
    assert one(128, 128, 4096) == pytest.approx(expected, rel=1e-12)


def test_parts_of_a_split_k_are_added_up_after_all_else() -> None:
    # Memory hides work on tiles, but not the sums, which begin when all parts of K are stored.
    slow_memory = TRUTH | FREE | {"dram_bytes_per_s": 1e10}
    slow_sums = slow_memory | {"split_k_s": TRUTH["split_k_s"] + 1e-6}
    m, n, k = (np.array([float(x)]) for x in (16, 512, 65536))
    fast, slow = (  # our kernels split by their own rule
        evaluate(constants, "ours_fast", "fp8_tensorwise", (m, n, k), 132)
        for constants in (slow_memory, slow_sums)
    )
    assert fast.dram[0] > 10 * fast.tiles[0]
    assert slow.total[0] - fast.total[0] == pytest.approx(1e-6, rel=1e-6)


def test_k_is_split_only_where_the_sums_take_less_than_what_it_saves() -> None:
    # Bound by memory, a split saves nothing.
    m, n, k = (np.array([float(x)]) for x in (16, 512, 65536))
    for bandwidth, is_split in ((1e18, True), (1e9, False)):
        constants = TRUTH | FREE | {"dram_bytes_per_s": bandwidth}
        parts = evaluate(constants, "tile_128x128_split_k", "bf16", (m, n, k), 132)
        assert (parts.sums[0] > 0) == is_split


@pytest.mark.parametrize(
    ("n", "k", "latency"),
    [(4100, 4096, 5e-9), (4096, 4092, 5e-9), (4095, 4096, 7e-9), (4096, 4094, 7e-9)],
)
def test_rows_off_16_bytes_take_the_kernels_of_older_gpus(n: int, k: int, latency: float) -> None:
    alone = FREE | {"launch_s": 1e-12, "wave_s": 1e-12, "misaligned": 1.0}
    waves = 8  # 32 x 32 (or 33) tiles on 132 units
    assert one(4096, n, k, alone) == pytest.approx(waves * 2 * 4096 * latency, rel=0.05)


@pytest.mark.parametrize("family", [name for name in FAMILIES if not FAMILIES[name].is_plain])
def test_more_rows_never_take_less_time(family: str) -> None:
    m = np.arange(1, 3000, 37).astype(np.float64)
    n, k = np.full_like(m, 4096.0), np.full_like(m, 4096.0)
    is_slower = np.diff(seconds("bf16", family, TRUTH, m, n, k)) >= -1e-15
    # The rule of our kernels does not know these constants, and may pass to a faster tile.
    choices = describe("bf16", m, n, k, family, 132).choices
    kernels = choices.store_bytes[:, 0] + choices.has_few_rows[:, 0]
    other_tile = np.diff(kernels) != 0
    assert (is_slower | (other_tile & bool(FAMILIES[family].rule))).all()


@pytest.mark.parametrize(
    ("size", "group"),
    [
        ((4096, 8192, 8192), "whole.large"),
        ((4096, 8192, 8192 - 64), "partial.large"),
        ((4096 + 16, 8192, 8192), "whole.large"),
        ((2048, 2048, 2048), "whole.mid"),
        ((512, 512, 512), "whole.small"),
        ((4096, 4096, 512), "whole.skinny_k"),
        ((7, 8192, 8192), "whole.decode"),
        ((7, 8192, 8192 + 16), "partial.decode"),
        ((1001, 1024, 1024), "whole.ragged"),
        ((1001, 1024, 1040), "partial.ragged"),
        ((4096, 4096, 4097), "unaligned"),
    ],
)
def test_shapes_of_whole_tiles_are_told_apart(size: tuple[int, int, int], group: str) -> None:
    m, n, k = (np.array([float(side)]) for side in size)
    assert groups_of("bf16", (m, n, k)) == [group]
    assert group in GROUPS


PACKED = {
    "launch_s": 2e-6,
    "side_s": 1e-8,
    "tile_flops_per_s": 2e11,
    "direct_flops_per_s": 5e10,
    "dram_bytes_per_s": 2e10,
    "pack_a_bytes_per_s": 3e10,
    "pack_b_bytes_per_s": 1e10,
}


@pytest.mark.parametrize("recipe", GEMM_RECIPES)
def test_more_rows_never_take_less_time_on_a_processor(recipe: str) -> None:
    m = np.arange(1.0, 200.0, dtype=np.float64)
    sizes = (m, np.full_like(m, 2048.0), np.full_like(m, 1024.0))
    assert (np.diff(packed_parts(PACKED, recipe, sizes, 2).total) >= 0).all()
