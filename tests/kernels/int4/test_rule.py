"""What the rules choose, that everything they choose fits, and that they are complete."""

import itertools
import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

from kernels.int4 import rule
from kernels.int4.rule import (
    CHAINED_LAUNCHES,
    PLAIN_LAUNCHES,
    RULES,
    SPECIALISED,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4SpecialisedConfig,
    Int4StagedConfig,
    Row,
    choose,
    direct_or_staged,
    for_many_tokens,
    plain,
)
from tests.kernels.int4.int4_cases import (
    weights_without_memory,
)
from tests.paths import ROOT

LAYERS = [(3584, 8192), (28672, 8192), (8192, 28672), (4096, 14336), (8192, 3584), (5120, 25600)]
ROWS = [*RULES[PLAIN_LAUNCHES], *RULES[CHAINED_LAUNCHES]]
STAGED = [
    config
    for row in ROWS
    for config in row.configs + row.otherwise
    if isinstance(config, Int4StagedConfig)
]
SPECIALISED_CONFIGS = dict.fromkeys(config for row in RULES[SPECIALISED] for config in row.configs)


def covers(above: Row, row: Row) -> bool:
    wider = above.least_group <= row.least_group and above.most_weights >= row.most_weights
    wider = wider and above.most_rows >= row.most_rows
    return wider and above.most_tokens >= row.most_tokens


@pytest.mark.parametrize("name", RULES)
def test_rows_cover_all_weights_and_none_is_hidden_by_one_above(name: str) -> None:
    rows = RULES[name]
    for i, row in enumerate(rows):
        assert not any(covers(above, row) for above in rows[:i])
        configs = row.configs + row.otherwise
        assert row.configs
        assert len(set(configs)) == len(configs)
        if name != SPECIALISED:
            assert all(config.token_tile >= min(row.most_tokens, 64) for config in configs)
    if name != SPECIALISED:
        last = rows[-1]
        assert (last.most_tokens, last.least_group, last.most_weights) == (1 << 62, 0, 1 << 62)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize(("group", "zeros"), [(128, False), (64, False), (32, True)])
def test_layers_of_language_models_never_fall_back_to_plain_triton(
    group: int, zeros: bool, chained: bool
) -> None:
    for (rows, k), tokens in itertools.product(LAYERS, (1, 8, 9, 16, 17, 32, 33, 64, 65, 256)):
        w = weights_without_memory(rows, k, group, zeros=zeros)
        config = choose(w, tokens, chained=chained)
        assert not isinstance(config, Int4PlainConfig), (rows, k, tokens)
        assert config.fits(w), (rows, k, tokens)


def test_odd_sizes_fall_back_to_plain_triton() -> None:
    assert isinstance(
        choose(weights_without_memory(64, 128 * 257, 32, zeros=True), 300), Int4PlainConfig
    )


def in_table(config: Int4Config) -> dict[str, str | int]:
    """What a row of docs/kernels/int4_blocks.csv says of a configuration."""
    own = {
        "block_rows": config.block_rows,
        "split": config.split,
        "warps": config.num_warps,
        "token_tile": config.token_tile,
    }
    if isinstance(config, Int4DirectConfig):
        return {"kernel": "direct", "depth": config.depth, **own}
    assert isinstance(config, Int4StagedConfig)
    own |= {"unroll": config.unroll, "stages": config.stages}
    return {"kernel": "staged", "matrix": config.matrix, **own}


def times_of_choices() -> pd.DataFrame:
    """Microseconds of each product of docs/kernels/int4_blocks.csv on a card.

    By the blocks that the rule takes, and by the fastest.
    """
    times = pd.read_csv(ROOT / "docs/kernels/int4_blocks.csv")
    axes = ["card", "tokens", "rows", "k", "group", "chained"]
    choices = []
    for _, of_product in times.groupby(axes):
        product = {name: int(of_product[name].iloc[0]) for name in axes}
        weights = weights_without_memory(product["rows"], product["k"], product["group"])
        config = direct_or_staged(weights, product["tokens"], chained=product["chained"] == 1)
        row = in_table(config)
        is_chosen = (of_product[list(row)] == pd.Series(row)).all(axis=1)
        if not is_chosen.any():  # timed on another card, as asserted below
            continue
        us = of_product["us"]
        choices.append(product | {"chosen": float(us[is_chosen].min()), "fastest": float(us.min())})
    table = pd.DataFrame(choices)
    missing = pd.merge(times[axes[1:]].drop_duplicates(), table, how="left")["chosen"].isna()
    assert not missing.any(), "the rule takes blocks that were not timed"
    return table


def test_few_tokens_run_nearly_as_fast_as_the_fastest_blocks_that_were_timed() -> None:
    us = times_of_choices()
    assert len(us) > 200
    behind = us["chosen"] / us["fastest"] - 1
    mean = behind.groupby([us["tokens"] > 8, us["chained"]]).mean()
    assert mean[False, 0] < 0.03
    assert mean.max() < 0.06
    assert behind.max() < 0.30, f"far from the fastest: {us.iloc[int(behind.argmax())].to_dict()}"


def test_more_units_want_a_finer_cut() -> None:
    splits = []
    for units in (64, 256):
        config = choose(weights_without_memory(8192, 28672), 1, units=units)
        assert isinstance(config, Int4StagedConfig)
        splits.append(config.split)
    assert splits == [2, 4]


def test_where_no_ring_of_more_units_divides_k_one_of_single_units_runs() -> None:
    config = choose(weights_without_memory(1792, 128 * 27), 64)
    assert isinstance(config, Int4StagedConfig)
    assert (config.unroll, config.split) == (1, 3)


def test_many_products_take_the_blocks_that_each_takes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(3)
    tokens, n, k = np.exp(draw.uniform(0, np.log([[400], [60000], [270]]), (3, 250))).round()
    sizes = rule.Sizes(tokens, n, 128 * k, np.full(250, 64.0), np.ones(250))
    whole = rule.chosen_blocks(CHAINED_LAUNCHES, sizes, 132)
    alone = [
        rule.chosen_blocks(CHAINED_LAUNCHES, rule.Sizes(*(size[i : i + 1] for size in sizes)), 132)
        for i in range(250)
    ]
    monkeypatch.setattr(rule, "_AT_ONCE", 7)
    cut = rule.chosen_blocks(CHAINED_LAUNCHES, sizes, 132)
    for part in fields(whole):
        assert getattr(whole, part.name).tolist() == [getattr(one, part.name)[0] for one in alone]
        assert np.array_equal(getattr(whole, part.name), getattr(cut, part.name))
    assert set(whole.direct) == {0, 1}
    assert whole.resident.max() > 1
    assert set(whole.unroll[whole.direct == 1]) == {1}
    assert set(whole.unroll[whole.direct == 0]) == {1, 2, 4}


@pytest.mark.parametrize(("tokens", "tile"), [(1, 16), (16, 16), (17, 32), (64, 64), (1000, 64)])
def test_the_plain_kernel_takes_the_smallest_tile_that_suffices(tokens: int, tile: int) -> None:
    assert plain(tokens).token_tile == tile


@pytest.mark.parametrize("group", [64, 128])
@pytest.mark.parametrize("tokens", [17, 32, 33, 64, 65, 128, 129, 256, 1000])
def test_products_of_many_tokens_have_a_specialised_configuration_that_fits(
    tokens: int, group: int
) -> None:
    tiles = (32,) if tokens <= 32 else (64,) if tokens <= 64 else (128,)
    for rows, k in [*LAYERS, (10240, 8192), (64, 128), (1, 256)]:
        weights = weights_without_memory(rows, k, group)
        config = for_many_tokens(weights, tokens)
        assert config is not None
        assert config in SPECIALISED_CONFIGS
        assert config.fits(weights)
        assert config.token_tile in ((64, 128) if 128 < tokens <= 192 else tiles)
        if tokens > 64 and k >= 4096:
            assert choose(weights, tokens) == config


def test_no_specialised_configuration_is_for_few_tokens_or_groups_of_32() -> None:
    assert for_many_tokens(weights_without_memory(3584, 8192), 16) is None
    assert for_many_tokens(weights_without_memory(3584, 8192, 32), 256) is None


# (rows, k, tokens, chained) -> whether many tokens are for kernels.int4.specialised
BORDERS = {
    **dict.fromkeys([(3584, 8192, 16, False), (28672, 8192, 16, True)], False),
    **dict.fromkeys([(3584, 8192, 17, False), (4096, 4096, 32, False)], True),
    **dict.fromkeys([(8192, 8192, 32, True), (4096, 4096, 64, True)], False),
    **dict.fromkeys([(10240, 8192, 32, True), (3584, 8192, 64, True)], True),
    **dict.fromkeys([(28672, 4096, 64, True), (4096, 4096, 65, True)], True),
    **dict.fromkeys([(8192, 3584, 128, False), (8192, 2048, 33, True)], False),
    **dict.fromkeys([(8192, 3584, 129, False), (8192, 2048, 256, True)], True),
}


@pytest.mark.parametrize(("case", "is_for_it"), BORDERS.items())
def test_where_the_specialised_kernel_begins(
    case: tuple[int, int, int, bool], is_for_it: bool
) -> None:
    rows, k, tokens, chained = case
    weights = weights_without_memory(rows, k)
    config = choose(weights, tokens, chained=chained)
    assert isinstance(config, Int4SpecialisedConfig) == is_for_it
    if not is_for_it:
        assert config == direct_or_staged(weights, tokens, chained=chained)


@pytest.mark.parametrize(("rows", "k"), [(4096, 14336), (5120, 8192), (3584, 8192)])
@pytest.mark.parametrize("units", [32, 132])
def test_a_specialised_product_is_cut_where_that_fills_the_multiprocessors(
    rows: int, k: int, units: int
) -> None:
    weights = weights_without_memory(rows, k)
    config = for_many_tokens(weights, 128, units)
    assert config is not None
    if units == 132:
        assert config.split > 1
    blocks = math.prod(config.grid(weights, 128))
    assert blocks / (units * math.ceil(blocks / units)) > 0.75


def test_a_specialised_block_fills_a_multiprocessor() -> None:
    w = weights_without_memory(4096, 4096)
    for config in SPECIALISED_CONFIGS:
        assert 2 * config.shared_bytes(w) > rule._BYTES_OF_MULTIPROCESSOR
