"""A NumPy function of sizes as a list of steps, which a page computes again for other sizes.

The function runs once, for one example, with `Traced` in place of the sizes. A Traced is the array
that NumPy would have, and the place of the step that made it. What a function reads besides sizes,
such as fitted constants, is a number in the list. Equal steps are kept once, so functions that are
traced in one `Trace` share what they have in common. reports/templates/trace.js has the other half.

A step is its name, a ufunc's or one of those below, and the places of what it takes; a number or a
text stands for itself. On a page an array is a number or a flat list: an example is of one point,
so at most one axis is longer than 1.

What cannot be traced raises TypeError: a branch on a size, a NumPy function without a step here.
NumPy hands np.asarray, np.array and an index of a plain array the bare example, which would stand
in the list as a number: a function that is to be traced takes np.asanyarray, np.stack and
np.take_along_axis, and tests ask a page for other sizes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

_LARGEST: Final = 1e308
_LARGEST_WHOLE: Final = 1e15
# ufunc -> its second input that leaves the first one as it is
_NEUTRAL: Final = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1, "bitwise_and": True}
_UFUNCS: Final = (
    *_NEUTRAL,
    *("floor_divide", "remainder", "negative", "ceil", "floor", "sqrt", "gcd", "frexp", "ldexp"),
    *("minimum", "maximum", "less", "less_equal", "greater", "greater_equal", "equal"),
    *("not_equal", "bitwise_or", "invert"),
)


class Trace:
    """The steps of functions of the same sizes."""

    def __init__(self) -> None:
        self._steps: list[tuple[Any, ...]] = []  # ("constant", value), ("size", name) or a step
        self._places: dict[str, int] = {}

    def size(self, name: str, example: int) -> "Traced":
        """A size: the page gives it another value."""
        return self.traced(np.array([float(example)]), self._place(("size", name)))

    def place(self, value: Any) -> int:
        """The place of a Traced, or of a constant."""
        if isinstance(value, Traced):
            return value.place
        flat = np.asarray(value).ravel()
        cells = [_as_json(cell) for cell in flat.tolist()]
        is_one = bool(cells) and all(cell == cells[0] for cell in cells)
        return self._place(("constant", cells[0] if is_one else cells))

    def record(self, result: Any, name: str, *inputs: Any) -> "Traced":
        """The result of a step, traced; a constant where the step takes constants alone."""
        places = [self.place(value) for value in inputs]
        if not any(map(self.depends, places)):
            return self.traced(result, self.place(result))
        return self.traced(result, self._place((name, *places)))

    def traced(self, value: Any, place: int) -> "Traced":
        """The value of an example, with the place of what made it."""
        traced = np.asarray(value).view(Traced)
        assert sum(length > 1 for length in traced.shape) <= 1, traced.shape
        traced.steps, traced.place = self, place
        return traced

    def depends(self, place: int) -> bool:
        """Whether a step depends on a size."""
        return bool(self._steps[place][0] != "constant")

    def constant(self, value: Any) -> Any:
        """The constant that a value is; None where it depends on a size."""
        name, *inputs = self._steps[self.place(value)]
        return inputs[0] if name == "constant" else None

    def is_size(self, place: int) -> bool:
        """Whether it is a size itself, which is whole."""
        return bool(self._steps[place][0] == "size")

    def texts(self, place: int) -> set[str]:
        """The texts that a step can be."""
        name, *inputs = self._steps[place]
        if name == "constant":
            return {inputs[0]}
        if name == "add":
            first, last = map(self.texts, inputs)
            return {one + other for one in first for other in last}
        assert name == "where", f"{name} makes no text"
        return self.texts(inputs[1]) | self.texts(inputs[2])

    def written(self, answers: Sequence[dict[str, int]]) -> dict[str, list[Any]]:
        """The constants and steps that answers (name -> place) need, as JSON.

        The answers get their places in it. A place below the number of constants is that of a
        constant, others count the steps from there. What a step takes is counted backwards from
        itself instead: equal pieces of equations are then equal texts, which pack well.
        """
        needed: set[int] = set()
        waiting = [place for answer in answers for place in answer.values()]
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                waiting += self._inputs(place)
        order = sorted(needed, key=lambda place: (self.depends(place), place))
        new = {old: place for place, old in enumerate(order)}
        constants = [self._steps[old][1] for old in order if not self.depends(old)]
        steps = []
        for old in order[len(constants) :]:
            name, *inputs = self._steps[old]
            if name != "size":
                back = new[old] + len(constants)
                inputs = [new[i] if not self.depends(i) else back - new[i] for i in inputs]
            steps.append([name, *inputs])
        for answer in answers:
            answer.update({name: new[place] for name, place in answer.items()})
        return {"constants": constants, "steps": steps}

    def _inputs(self, place: int) -> Sequence[int]:
        name, *inputs = self._steps[place]
        return () if name in ("constant", "size") else inputs

    def _place(self, step: tuple[Any, ...]) -> int:
        key = repr(step)  # unlike tuples, those of 1 and True differ
        if key not in self._places:
            self._places[key] = len(self._steps)
            self._steps.append(step)
        return self._places[key]


class Traced(np.ndarray[Any, Any]):
    """The array of an example, and the place of the step that made it."""

    steps: Trace
    place: int

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """The result of a ufunc, traced."""
        name, out = ufunc.__name__, keywords.pop("out", None)
        if method != "__call__" or keywords or name not in _UFUNCS:
            raise TypeError(f"np.{name} ({method}) cannot be traced")
        result = ufunc(*map(_plain, inputs))
        if isinstance(result, tuple):  # each result is a step of its own
            parts = enumerate(result)
            return tuple(self.steps.record(part, f"{name}_{i}", *inputs) for i, part in parts)
        traced = self._unchanged(name, inputs, result)
        if traced is None:
            traced = self.steps.record(result, name, *inputs)
        if out is None:
            return traced
        out[0][...] = traced  # `a &= b`
        return out[0]

    def _unchanged(self, name: str, inputs: Sequence[Any], result: Any) -> Any:
        """An input that the other one leaves as it is, such as + 0; 0 of * 0; else None."""
        orders = [inputs] if name in ("subtract", "divide") else [inputs, inputs[::-1]]
        for one, other in orders if name in _NEUTRAL else ():
            constant = self.steps.constant(other)
            if constant == _NEUTRAL[name] and not isinstance(constant, str):
                return self.steps.traced(result, self.steps.place(one))
            if name == "multiply" and constant == 0:
                return self.steps.traced(result, self.steps.place(0))
        return None

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """The result of a NumPy function, traced."""
        own = getattr(self, f"_{func.__name__}", None)
        if own is None:
            raise TypeError(f"np.{func.__name__} cannot be traced")
        return own(*args, **kwargs)

    def _where(self, condition: Any, one: Any, other: Any) -> Any:
        result = np.where(_plain(condition), _plain(one), _plain(other))
        asked = self.steps.constant(condition)
        if isinstance(asked, bool):
            return self.steps.traced(result, self.steps.place(one if asked else other))
        return self.steps.record(result, "where", condition, one, other)

    def _select(self, conditions: Sequence[Any], choices: Sequence[Any], default: Any) -> Any:
        for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
            default = self._where(condition, choice, default)
        return default

    def _zeros_like(self, like: Any) -> Any:
        return self._full_like(like, 0.0)

    def _ones_like(self, like: Any) -> Any:
        return self._full_like(like, 1.0)

    def _full_like(self, like: Any, value: Any, dtype: Any = None) -> Any:
        return self.steps.traced(np.full(like.shape, value, dtype), self.steps.place(value))

    def _concatenate(self, arrays: Sequence[Any], **_: Any) -> Any:  # of one chunk
        (only,) = arrays
        return only

    def _stack(self, arrays: Sequence[Any]) -> Any:
        return self.steps.record(np.stack([*map(_plain, arrays)]), "stack", *arrays)

    def _take_along_axis(self, array: Any, places: Any, axis: int) -> Any:
        result = np.take_along_axis(_plain(array), _plain(places), axis)
        return self.steps.record(result, "pick", array, places)

    def _searchsorted(self, array: Any, value: Any) -> Any:
        result = np.searchsorted(array, _plain(value))
        return self.steps.record(result, "count_below", array, value)

    def _unique(self, texts: Any, **_: Any) -> tuple[Any, Any]:  # with the places in them
        names = np.array(sorted(self.steps.texts(texts.place)))
        result = np.flatnonzero(names == _plain(texts))
        return names, self.steps.record(result, "place", names, texts)

    def one_step(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """A function of roofcal.core.portable_math as a single step."""
        return self.steps.record(function(*map(_plain, inputs)), function.__name__, *inputs)

    def __getitem__(self, key: Any) -> Any:
        """The same point in another shape; a mask takes the one point."""
        if isinstance(key, Traced):
            return self.copy()
        part = _plain(self)[key]
        if np.size(part) != self.size:
            raise TypeError(f"[{key}] of shape {self.shape} cannot be traced")
        return self.steps.traced(part, self.place)

    def __setitem__(self, key: Any, value: Any) -> None:
        """`array[mask] = value`, or all of it."""
        chosen = value if key is ... else self._where(key, value, self)
        _plain(self)[...] = _plain(chosen)
        self.place = chosen.place

    def __bool__(self) -> bool:
        """Raise TypeError: only one branch would be traced."""
        raise TypeError("a branch on a size cannot be traced: take np.where")

    def any(self, *_: Any, **__: Any) -> Any:
        """True: who asks leaves out steps that no point needs, and the page may need them."""
        return True

    def argmin(self, axis: Any = None, **__: Any) -> Any:  # type: ignore[override]
        """The place of the least."""
        return self.steps.record(_plain(self).argmin(axis), "argmin", self)

    def argmax(self, axis: Any = None, **__: Any) -> Any:  # type: ignore[override]
        """The place of the largest."""
        return self.steps.record(_plain(self).argmax(axis), "argmax", self)

    def astype(self, dtype: Any, **__: Any) -> Any:  # type: ignore[override]
        """Cut off where it becomes a whole number, else the same."""
        result, is_cut = _plain(self).astype(dtype), np.issubdtype(dtype, np.integer)
        if is_cut and self.dtype.kind == "f" and not self.steps.is_size(self.place):
            return self.steps.record(result, "trunc", self)
        return self.steps.traced(result, self.place)

    def copy(self, *_: Any) -> Any:
        """Another array of the same step."""
        return self.steps.traced(_plain(self).copy(), self.place)

    def tobytes(self, *_: Any) -> bytes:
        """Unlike those of any other array, so that no cache takes it for one."""
        return super().tobytes() + f" place {self.place} of {id(self.steps)}".encode()

    def tolist(self) -> Any:
        """The one point."""
        return [self]


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Traced) else value


def _as_json(value: Any) -> Any:
    """Whole numbers without a point; JSON has no infinity."""
    if not isinstance(value, float):
        return value
    if math.isinf(value):
        return math.copysign(_LARGEST, value)
    return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else value
