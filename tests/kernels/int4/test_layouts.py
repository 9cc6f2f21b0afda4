"""Every element has a holder, and lanes hold what the kernels' comments say they hold."""

from itertools import product
from typing import Any

import pytest

from kernels.int4 import layouts

LAYOUTS = {
    "words": layouts.direct_words(8),
    "activations 8": layouts.direct_activations(8, 8),
    "activations 16": layouts.direct_activations(4, 16),
    "scales": layouts.direct_scales(8),
    **{
        f"output of {warps} warps, {tokens} x {tiles}": layouts.direct_output(warps, tokens, tiles)
        for warps, tokens, tiles in ((8, 8, 1), (8, 16, 8), (1, 16, 4), (2, 8, 2))
    },
    "staged words 64": layouts.staged_words(64, 4),
    "staged words 256": layouts.staged_words(256, 8),
    "staged scales": layouts.staged_scales(128, 4),
}


def place(bases: list[list[int]], number: int, rank: int) -> tuple[int, ...]:
    """The coordinates that the set bits of `number` add up (by exclusive or) to."""
    coordinates = [0] * rank
    for bit, basis in enumerate(bases):
        if number >> bit & 1:
            coordinates = [a ^ b for a, b in zip(coordinates, basis, strict=True)]
    return tuple(coordinates)


def elements(layout: Any) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """(warp, lane, register) -> element."""
    rank = len(layout.shape)
    registers, lanes, warps = layout.reg_bases, layout.lane_bases, layout.warp_bases
    element_at = {}
    for warp, lane, register in product(
        range(1 << len(warps)), range(1 << len(lanes)), range(1 << len(registers))
    ):
        parts = (
            place(warps, warp, rank),
            place(lanes, lane, rank),
            place(registers, register, rank),
        )
        element_at[warp, lane, register] = tuple(a ^ b ^ c for a, b, c in zip(*parts, strict=True))
    return element_at


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_element_is_held_by_someone(name: str) -> None:
    layout = LAYOUTS[name]
    held = set(elements(layout).values())
    assert held == set(product(*(range(size) for size in layout.shape)))


def test_a_lane_of_the_direct_kernel_reads_two_runs_of_sixteen_bytes() -> None:
    held = elements(LAYOUTS["words"])
    for lane in range(32):
        run = [held[3, lane, register] for register in range(32)]
        first = [(3, 16 * lane + i) for i in range(16)]
        assert run == first + [(warp, byte + 512) for warp, byte in first]


def test_a_lane_of_the_direct_kernel_reads_sixteen_contiguous_columns() -> None:
    held = elements(LAYOUTS["activations 8"])
    for lane in range(32):
        g, s = divmod(lane, 4)
        assert [held[5, lane, r] for r in range(16)] == [(g, 5, 16 * s + i) for i in range(16)]


def test_a_lane_of_the_staged_kernel_reads_whole_words() -> None:
    held = elements(LAYOUTS["staged words 64"])
    for lane in range(32):
        g, w = divmod(lane, 4)
        at = [row * 128 + byte for row, byte in (held[0, lane, r] for r in range(32))]
        expected = [
            512 * half + 64 * g + 16 * s + 4 * w + byte
            for half, s, byte in product(range(2), range(4), range(4))
        ]
        assert at == expected


def test_partial_sums_meet_in_a_thread_and_scales_travel_sixteen_bytes_a_thread() -> None:
    for warps, tokens in [(8, 8), (8, 16), (1, 8), (4, 16)]:
        layout = layouts.direct_partials(warps, tokens)
        assert layout.size_per_thread[0] == warps
        assert layout.threads_per_warp[1] * layout.threads_per_warp[2] == 32
        assert layout.warps_per_cta == [1, warps, 1]
    rows = layouts.staged_scale_rows(128, 4)
    assert (rows.size_per_thread, rows.threads_per_warp) == ([1, 1, 8], [16, 1, 2])
    assert [layouts.power_of_two(count) for count in (0, 1, 3, 64, 65)] == [1, 1, 4, 64, 128]
