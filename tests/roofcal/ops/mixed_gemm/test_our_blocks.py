"""The rule by which the model knows our int4 blocks, held against the kernels themselves."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from kernels.int4 import table
from kernels.int4.configs import Int4DirectConfig, Int4PlainConfig, Int4StagedConfig
from kernels.int4.packing import Int4Weights, padded
from roofcal.core.recipes import WEIGHT_ONLY_RECIPES
from roofcal.ops.mixed_gemm.our_blocks import halvings, our_blocks
from roofcal.ops.mixed_gemm.spec import OP

UNITS = 132
INT4 = [name for name, recipe in WEIGHT_ONLY_RECIPES.items() if recipe.b.dtype == "int4"]


def weights(recipe: str, n: int, k: int) -> Int4Weights:
    """What the kernels' table asks of weights, without tensors of that size."""
    b = WEIGHT_ONLY_RECIPES[recipe].b
    assert b.scale is not None
    zeros = object() if b.zero_point else None
    sizes: dict[str, Any] = {"rows": n, "padded_rows": padded(n), "k": k, "zeros": zeros}
    return cast("Int4Weights", SimpleNamespace(group=b.scale.cols, **sizes))


def sizes() -> np.ndarray:
    """Log-uniform tokens, rows (half of them in steps of 64) and columns in units of 128."""
    draw = np.random.default_rng(3)
    m = np.exp(draw.uniform(0, math.log(400), 250)).round()
    n = np.exp(draw.uniform(math.log(50), math.log(60000), 250)).round()
    n[::2] = 64 * np.ceil(n[::2] / 64)
    k = 128 * np.exp(draw.uniform(0, math.log(270), 250)).round()
    return np.stack([m, n, k])


@pytest.mark.parametrize("recipe", INT4)
@pytest.mark.parametrize("rule", ["int4", "int4_chained"])
def test_the_model_knows_which_block_our_kernels_take(rule: str, recipe: str) -> None:
    m, n, k = sizes()
    blocks = our_blocks(rule, recipe, m, n, k, UNITS)
    kinds = set()
    for i, (tokens, rows, columns) in enumerate(zip(*sizes().astype(int).tolist(), strict=True)):
        own = weights(recipe, rows, columns)
        config = table.direct_or_staged(own, tokens, chained=rule == "int4_chained", units=UNITS)
        kinds.add(type(config))
        if isinstance(config, Int4PlainConfig):  # whose blocks nobody has timed on Hopper
            continue
        assert bool(blocks.direct[i]) == isinstance(config, Int4DirectConfig)
        assert (blocks.rows[i], blocks.tokens[i]) == (config.block_rows, config.token_tile)
        assert (blocks.split[i], blocks.warps[i]) == (config.split, config.num_warps)
        assert blocks.count[i] == math.prod(config.grid(own, tokens))
        if isinstance(config, Int4StagedConfig):
            assert blocks.resident[i] == table._resident_blocks(config, own)
    assert {Int4DirectConfig, Int4StagedConfig} <= kinds


@pytest.mark.parametrize("units", [20, UNITS])
@pytest.mark.parametrize("recipe", INT4)
def test_the_model_knows_which_block_our_specialised_kernel_takes(recipe: str, units: int) -> None:
    m, n, k = sizes()
    m[:] = np.maximum(17, m)
    blocks = our_blocks("int4_specialised", recipe, m, n, k, units)
    kinds = set()
    for i, (tokens, rows, columns) in enumerate(zip(*np.stack([m, n, k]).astype(int), strict=True)):
        own = weights(recipe, int(rows), int(columns))
        config = table.for_many_tokens(own, int(tokens), units)
        if config is None:
            assert own.group == 32
            continue
        kinds.add(replace(config, split=1))
        assert not blocks.direct[i]
        assert (blocks.rows[i], blocks.tokens[i]) == (config.block_rows, config.token_tile)
        assert blocks.split[i] == config.split
        assert blocks.count[i] == math.prod(config.grid(own, int(tokens)))
        assert blocks.resident[i] == 1
        needed = config.shared_bytes(own.k, own.group, zeros=own.zeros is not None)
        assert 2 * needed > table._SHARED_MEMORY_BYTES
    fitting = {c for c in table.SPECIALISED_COSTS if c.fits(weights(recipe, 4096, 4096))}
    assert kinds == fitting or units != UNITS
    counts = {"int4_groupwise_g32": 0, "int4_groupwise_g64_asymmetric": 8}
    assert len(fitting) == counts.get(recipe, 9)


def test_the_model_knows_from_how_many_tokens_the_specialised_kernel_runs() -> None:
    (recipe, *_) = (name for name in INT4 if name != "int4_groupwise_g32")
    least = OP.least_sizes("triton_specialised", recipe)["m"]
    assert least == table._LEAST_TOKENS
    assert table.for_many_tokens(weights(recipe, 4096, 4096), least - 1) is None
    assert table.for_many_tokens(weights(recipe, 4096, 4096), least) is not None


def test_halvings_are_logarithms() -> None:
    parts = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert halvings(parts).tolist() == pytest.approx(np.log2(parts).tolist(), rel=1e-15)


def test_another_rule_or_recipe_is_refused() -> None:
    one = np.ones(1)
    with pytest.raises(KeyError, match="int8"):
        our_blocks("int8", INT4[0], one, one, one, UNITS)
    with pytest.raises(KeyError, match="bf16"):
        our_blocks("int4", "bf16", one, one, one, UNITS)
