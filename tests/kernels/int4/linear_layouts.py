"""Linear layouts of Gluon in Python: which register of which lane and warp holds which element."""

from itertools import product
from typing import Any


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
