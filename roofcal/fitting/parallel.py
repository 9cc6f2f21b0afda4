"""Independent fits on all cores."""

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from roofcal.core.machine.cores import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """function(item) of every item, in their order, in as many processes as there are cores.

    Results do not depend on the number of cores. What `function` raises is raised here.
    """
    workers = min(usable_cores(), len(items))
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [function(item) for item in items]
    # Forked processes start in milliseconds and inherit what they need; others would have to import
    # NumPy again, 0.3 s each, and could be sent neither closures nor cached arrays.
    with ProcessPoolExecutor(
        workers, multiprocessing.get_context("fork"), _inherit_work, (function, items)
    ) as pool:
        return list(pool.map(_call_inherited, range(len(items))))


_inherited: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def _inherit_work(function: Callable[[Any], Any], items: Sequence[Any]) -> None:
    global _inherited  # noqa: PLW0603 (once per process, before its first call)
    _inherited = function, items


def _call_inherited(number: int) -> Any:
    assert _inherited is not None
    function, items = _inherited
    return function(items[number])
