"""The tables of configurations are complete and in order."""

from kernels.int4_configs import INT4_PLAIN, INT4_TABLE


def test_no_row_of_the_int4_table_prefers_the_same_twice() -> None:
    for _, _, configs in INT4_TABLE:
        assert configs
        assert len(set(configs)) == len(configs)


def test_the_int4_table_covers_any_number_of_tokens_of_any_weights() -> None:
    for large in (0, 1 << 40):
        tokens = [most for most, least, _ in INT4_TABLE if large >= least]
        assert 1 << 30 in tokens


def test_a_block_has_room_for_the_tokens_that_lead_to_it() -> None:
    for most_tokens, _, configs in INT4_TABLE:
        for config in configs:
            assert config.token_tile >= min(most_tokens, 64)


def test_plain_configurations_are_ordered_by_tokens() -> None:
    tiles = [config.token_tile for config in INT4_PLAIN]
    assert tiles == sorted(tiles)
