"""Chunks: whole tiles, all rows once, and a last one that its moved-up tile does not leave."""

import pytest

from kernels.gather.configs import MOST_CHUNKS, chunks_of


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
