"""What cannot be traced is refused; what can is held to Python in tests of the shape box."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from roofcal.core.portable_math import exp
from roofcal.report.kit.traces import Trace


def test_equal_steps_are_kept_once_and_steps_without_effect_not_at_all() -> None:
    trace = Trace()
    m, n = trace.size("m", 3), trace.size("n", 5)
    once = np.ceil(m / 2) * exp(n)
    again = np.where(np.zeros_like(m) > 0, n, np.ceil(m / 2)) * exp(n) * 1 + 0
    assert once.tolist()[0].place == again.tolist()[0].place
    assert float(once.item()) == 2 * float(exp(np.array([5.0])).item()), "the example's value"
    answers = [{"product": trace.place(once), "two": trace.place(2.0)}]
    written = trace.written(answers)
    assert written == {
        "constants": [2],
        "steps": [["size", "m"], ["size", "n"], ["divide", 3, 0], ["ceil", 2], ["exp", 4]]
        + [["multiply", 3, 2]],
    }
    assert answers == [{"product": 6, "two": 0}]


@pytest.mark.parametrize(
    ("untraceable", "why"),
    [
        (lambda m: 1 if m > 3 else 2, "a branch on a size cannot be traced"),
        (lambda m: np.sin(m), "np.sin .* cannot be traced"),
        (lambda m: np.cumsum(m), "np.cumsum cannot be traced"),
        (lambda m: np.maximum.reduce(m), "np.maximum .reduce. cannot be traced"),
        (lambda m: np.stack([m, m])[0], "of shape .* cannot be traced"),
    ],
)
def test_what_cannot_be_traced_is_refused(untraceable: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        untraceable(Trace().size("m", 4))
