"""Stands in for roofcal.measure.ranks where processes cannot join each other."""

from typing import Any


class Alone:
    """One rank, as the real one."""

    rank = 0
    world_size = 1

    def agree(self, value: float) -> float:
        return value

    def every(self, value: Any) -> list[Any]:
        return [value]

    def align(self) -> None:
        """Nobody to wait for."""

    def together(self) -> Any:
        from contextlib import nullcontext

        return nullcontext()


ALONE = Alone()


class Ranks(Alone):
    def __init__(self, *_: Any) -> None:
        raise OSError("no network")


def slowest(*_: Any) -> None:
    raise AssertionError("no ranks, no samples")
