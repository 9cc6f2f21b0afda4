"""The rule by which the model knows our kernels' tiles, held against the kernels themselves."""

import numpy as np
import pytest

from kernels.gemm import axiswise, blockwise, skinny
from kernels.gemm.hopper import cooperative, pingpong, staged_scales
from kernels.gemm.tile_choice import choose
from roofcal.ops.our_tiles import MOST_FEW_ROWS, RULES, our_tiles

UNITS = 132
TABLES = {
    "fast": (*axiswise.FAST, pingpong.PINGPONG),
    "slow": (*axiswise.SLOW, cooperative.SLOW),
    "blocks": (*blockwise.LARGE, *staged_scales.SQUARES, cooperative.BLOCKWISE),
}
FEW_ROWS = {"fast": skinny.AXISWISE, "slow": skinny.AXISWISE, "blocks": skinny.BLOCKWISE}


@pytest.mark.parametrize("rule", RULES)
def test_the_model_knows_which_tile_our_kernels_take(rule: str) -> None:
    sizes = np.exp(np.random.default_rng(3).uniform(np.log(65), np.log(30000), (3, 300))).round()
    ms, ns, ks = sizes
    rows, cols, splits = our_tiles(rule, ms, ns, ks, UNITS)
    for i, (m, n, _) in enumerate(sizes.T.astype(int).tolist()):
        config = choose(TABLES[rule], m, n, UNITS)
        assert (rows[i, 0], cols[i, 0], splits[i, 0]) == (config.m, config.n, 1.0)


@pytest.mark.parametrize("rule", RULES)
def test_the_model_knows_how_our_kernels_split_the_k_of_few_rows(rule: str) -> None:
    draw, config = np.random.default_rng(3), FEW_ROWS[rule]
    m = draw.integers(1, MOST_FEW_ROWS + 1, 300).astype(float)
    n, k = (np.exp(draw.uniform(np.log(64), np.log(30000), (2, 300)))).round()
    rows, cols, splits = our_tiles(rule, m, n, k, UNITS)
    assert MOST_FEW_ROWS == skinny.MOST_ROWS
    assert set(cols[:, 0]) == {config.n}
    assert ((rows[:, 0] >= m) & (rows[:, 0] < np.maximum(17, 2 * m))).all()
    for i in range(300):
        assert splits[i, 0] == skinny.split_of_k(config, int(n[i]), int(k[i]), UNITS)
