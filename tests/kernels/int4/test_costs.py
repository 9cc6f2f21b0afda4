"""Whatever the table has to compare has costs."""

from dataclasses import replace

from kernels.int4.configs import INT4_TABLE, Int4StagedConfig
from kernels.int4.costs import COSTS


def test_every_staged_configuration_of_the_table_has_costs_and_no_other_does() -> None:
    rows = [row for table in INT4_TABLE.values() for row in table]
    configs = [config for row in rows for config in row.configs + row.otherwise]
    staged = {replace(c, split=1) for c in configs if isinstance(c, Int4StagedConfig)}
    assert staged == set(COSTS)


def test_costs_are_microseconds() -> None:
    for cost in COSTS.values():
        assert 1e-6 < cost.start_s < 1e-5
        assert 1e-7 < cost.unit_s < 1e-6


def test_a_block_of_more_rows_takes_longer_per_column_but_not_in_proportion() -> None:
    for tile in (8, 16):
        one, two = (
            min(c.unit_s for k, c in COSTS.items() if (k.rows, k.token_tile) == (rows, tile))
            for rows in (64, 128)
        )
        assert one < two < 2 * one
