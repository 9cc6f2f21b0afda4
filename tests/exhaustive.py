"""Grids of which `make test` runs a part, and `make test-all` or a machine with a GPU all."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def thinned(points: Iterable[tuple[Any, ...]], *, every: int, first: int = 0) -> list[Any]:
    """The points as parameters.

    All but each `every`th of them, counted from number `first`, carry the marker `exhaustive`.
    """
    return [
        pytest.param(
            *point,
            marks=pytest.mark.exhaustive if number < first or (number - first) % every else (),
        )
        for number, point in enumerate(points)
    ]


def mostly(ones: Iterable[Any], *few: Any) -> list[Any]:
    """All as parameters; all but the few carry the marker `exhaustive`."""
    return [pytest.param(one, marks=() if one in few else pytest.mark.exhaustive) for one in ones]


def in_turn(ones: Iterable[Any], others: Sequence[Any]) -> list[Any]:
    """All pairs as parameters.

    All but one per value of `ones`, with each of `others` in turn, carry the marker `exhaustive`.
    """
    return [
        pytest.param(
            one, other, marks=() if place == number % len(others) else pytest.mark.exhaustive
        )
        for number, one in enumerate(ones)
        for place, other in enumerate(others)
    ]


def mark_all_but_every_nth(items: Sequence[pytest.Item]) -> None:
    """Mark as `exhaustive` all but each nth case of tests that carry the marker `one_in(n)`.

    Raises:
        pytest.UsageError: if some value of some parameter would not be tried at all.
    """
    cases: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("one_in"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for name, grid in cases.items():
        marker = grid[0].get_closest_marker("one_in")
        assert marker is not None
        (n,) = marker.args
        if _values(grid[::n]) != _values(grid):
            raise pytest.UsageError(f"{name}: one_in({n}) leaves a value untried: take another n")
        for number, item in enumerate(grid):
            if number % n:
                item.add_marker(pytest.mark.exhaustive)


def _values(grid: Sequence[pytest.Function]) -> set[tuple[str, str]]:
    """(parameter, value) of all cases of a test."""
    return {(name, repr(value)) for case in grid for name, value in case.callspec.params.items()}
