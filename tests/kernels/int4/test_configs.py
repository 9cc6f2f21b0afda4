"""The tables of configurations are complete and in order."""

import pytest

from kernels.int4.configs import INT4_PLAIN, INT4_TABLE, Int4Row

ROWS = [row for table in INT4_TABLE.values() for row in table]


def test_no_row_of_the_int4_table_prefers_the_same_twice() -> None:
    for row in ROWS:
        configs = row.configs + row.otherwise
        assert row.configs
        assert len(set(configs)) == len(configs)


@pytest.mark.parametrize("chained", [False, True])
def test_the_int4_table_covers_any_number_of_tokens_of_any_weights(chained: bool) -> None:
    last = INT4_TABLE[chained][-1]
    assert (last.most_tokens, last.least_group, last.most_weights) == (1 << 30, 0, 1 << 62)


def test_no_row_of_the_int4_table_is_hidden_by_one_above() -> None:
    def covers(above: Int4Row, row: Int4Row) -> bool:
        wider = above.least_group <= row.least_group and above.most_weights >= row.most_weights
        return wider and above.most_tokens >= row.most_tokens

    for table in INT4_TABLE.values():
        for i, row in enumerate(table):
            assert not any(covers(above, row) for above in table[:i])


def test_a_block_has_room_for_the_tokens_that_lead_to_it() -> None:
    for row in ROWS:
        for config in row.configs + row.otherwise:
            assert config.token_tile >= min(row.most_tokens, 64)


def test_plain_configurations_are_ordered_by_tokens() -> None:
    tiles = [config.token_tile for config in INT4_PLAIN]
    assert tiles == sorted(tiles)
