"""How steps are written, and what is refused; tests of the shape box have a page do them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roofcal.report.kit.traces import Trace


def test_a_step_is_written_once_after_what_it_takes_and_only_if_it_is_needed() -> None:
    trace = Trace()
    m, n = trace.size("m", 3), trace.size("n", 5)
    halves = [np.ceil(m / 2.0), np.ceil(m / 2.0)]
    area = halves[0] * n + halves[1] * n
    assert [x.view(np.ndarray).item() for x in (area, m - n)] == [20, -2], "of the example"
    answers = [{"area": trace.place(area), "two": trace.place(2.0)}]
    assert trace.written(answers) == {
        "constants": [2],
        "steps": [
            *(["size", "m"], ["size", "n"], ["divide", 3, 0]),
            *(["ceil", 2], ["multiply", 2, 4], ["add", 2, 2]),
        ],
    }
    assert answers == [{"area": 6, "two": 0}]


@pytest.mark.parametrize(
    ("untraceable", "why"),
    [
        (lambda m: 1 if m > 3 else 2, "a branch on a size"),
        (np.sin, "np.sin"),
        (np.maximum.reduce, "np.maximum"),
        (np.cumsum, "np.cumsum"),
        (lambda m: np.stack([m, m])[0], "of shape"),
        (float, "a size as a plain number"),
        (math.ceil, "a size as a plain number"),
        (lambda m: m.item(), "a size as a plain number"),
        (lambda m: np.add(np.ones(1), m, out=np.ones(1)), "np.add into an array"),
        (lambda m: np.searchsorted(m, m, side="right"), "np.searchsorted with side"),
        (lambda m: np.stack([m, m], axis=1), "np.stack with axis"),
        (lambda m: (m > 1) + (m > 2), "a sum of two conditions"),
    ],
)
def test_what_cannot_be_traced_is_refused(untraceable: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(TypeError, match=f"{why} .*cannot be traced"):
        untraceable(Trace().size("m", 4))
