"""A NumPy function of sizes as a list of steps, which a page does again for other sizes.

The function runs once, for one example, with `Traced` in place of the sizes. A Traced is the array
that NumPy would have, and the place of the step that made it. What a function reads besides sizes,
such as fitted constants, is a constant in the list. Equal steps are kept once, so functions that
are traced in one `Trace` share what they have in common.

A step is a name, a ufunc's or one of those below, and the places of what it takes. A page has
numbers and flat lists alone, as an example is of one point: at most one axis is longer than 1.
reports/templates/product_model.js does the steps.

What cannot be traced raises TypeError: a branch on a size, a size as a plain number, a NumPy
function or keyword without a step here. But NumPy hands np.asarray, np.array and an index of a
plain array the bare example, which would be a constant: a function that is to be traced takes
np.asanyarray, np.stack and np.take_along_axis. Tests trace other examples, which must give the same
steps, and ask a page for other sizes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

_UFUNCS: Final = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "gcd"),
    *("ceil", "floor", "rint", "sqrt", "frexp", "ldexp", "minimum", "maximum"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("bitwise_and", "bitwise_or", "invert"),
)
_LARGEST: Final = 1e308  # stands for infinity, which JSON does not have


class Trace:
    """The steps of functions of the same sizes."""

    def __init__(self) -> None:
        self._steps: list[tuple[Any, ...]] = []  # ("constant", value), ("size", name) or a step
        self._places: dict[str, int] = {}

    def size(self, name: str, example: int) -> "Traced":
        """A size: the page gives it another value."""
        return self.traced(np.array([float(example)]), self._place("size", name))

    def place(self, value: Any) -> int:
        """The place of a Traced, or of a constant."""
        if isinstance(value, Traced):
            return value.place
        cells = [_as_json(cell) for cell in np.ravel(value).tolist()]
        is_one = all(cell == cells[0] for cell in cells)
        return self._place("constant", cells[0] if is_one else cells)

    def done(self, name: str, function: Callable[..., Any], *inputs: Any) -> "Traced":
        """What a function makes of its inputs, as a step of that name."""
        result = function(*map(_plain, inputs))
        return self.traced(result, self._place(name, *map(self.place, inputs)))

    def traced(self, value: Any, place: int) -> "Traced":
        """The value of an example, with the place of what made it."""
        traced = np.asarray(value).view(Traced)
        assert sum(length > 1 for length in traced.shape) <= 1, traced.shape
        traced.steps, traced.place = self, place
        return traced

    def texts(self, place: int) -> set[str]:
        """The texts that a step can be, a constant or a choice among texts."""
        name, *inputs = self._steps[place]
        if name == "constant":
            return {inputs[0]}
        assert name == "where", name
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
                name, *inputs = self._steps[place]
                waiting += inputs if name not in ("constant", "size") else ()
        constants = sorted(place for place in needed if self._steps[place][0] == "constant")
        others = sorted(needed - set(constants))
        new = {old: place for place, old in enumerate([*constants, *others])}
        steps = []
        for old in others:
            name, *inputs = self._steps[old]
            if name != "size":
                back = new[old] + len(constants)
                inputs = [new[i] if new[i] < len(constants) else back - new[i] for i in inputs]
            steps.append([name, *inputs])
        for answer in answers:
            answer.update({name: new[place] for name, place in answer.items()})
        return {"constants": [self._steps[old][1] for old in constants], "steps": steps}

    def _place(self, *step: Any) -> int:
        key = repr(step)  # unlike tuples, those of 1 and True differ
        if key not in self._places:
            self._places[key] = len(self._steps)
            self._steps.append(step)
        return self._places[key]


# NumPy function -> keywords that do not change what its step does, or that the step does.
_KEYWORDS: Final = {
    **{key: {"dtype"} for key in ("zeros_like", "ones_like", "full_like")},
    **{key: {"axis"} for key in ("take_along_axis", "concatenate")},
    "unique": {"return_inverse"},
}


class Traced(np.ndarray[Any, Any]):
    """The array of an example, and the place of the step that made it."""

    steps: Trace
    place: int

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **keywords: Any
    ) -> Any:
        """The result of a ufunc, traced."""
        name = ufunc.__name__
        if method != "__call__" or keywords or name not in _UFUNCS:
            raise TypeError(f"np.{name} ({method}) cannot be traced")
        if name == "frexp":  # two results, a step for each
            parts = (lambda x: ufunc(x)[0]), (lambda x: ufunc(x)[1])
            names = ("mantissa", "exponent")
            return tuple(map(self.steps.done, names, parts, inputs * 2))
        if name == "add" and all(np.asanyarray(one).dtype == bool for one in inputs):
            raise TypeError("a sum of two conditions cannot be traced: take |")
        if out and not isinstance(out[0], Traced):
            raise TypeError(f"np.{name} into an array that is no trace cannot be traced")
        traced = self.steps.done(name, ufunc, *inputs)
        if out:  # as of `a &= b`
            out[0][...] = traced
        return out[0] if out else traced

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """The result of a NumPy function, traced."""
        done, name = self.steps.done, func.__name__
        if not kwargs.keys() <= _KEYWORDS.get(name, set()):
            raise TypeError(f"np.{name} with {', '.join(kwargs)} cannot be traced")
        match name, *args:
            case "where", condition, one, other:
                made: Any = done("where", np.where, condition, one, other)
            case "select", conditions, choices, made:
                for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
                    made = done("where", np.where, condition, choice, made)
            case "zeros_like" | "ones_like" | "full_like", like, *value:
                plain = func(_plain(like), *value, **kwargs)
                made = self.steps.traced(plain, self.steps.place(plain))
            case "concatenate", (made,):  # of shapes, which are one chunk
                pass
            case "stack", arrays:
                made = done("stack", lambda *parts: np.stack(parts), *arrays)
            case "take_along_axis", array, places:
                made = done("item", lambda a, i: func(a, i, **kwargs), array, places)
            case "searchsorted", array, value:
                made = done("count_below", func, array, value)
            case "unique", text:  # and its place
                texts = np.array(sorted(self.steps.texts(text.place)))
                made = texts, done("place", lambda a, one: np.flatnonzero(a == one), texts, text)
            case _:
                raise TypeError(f"np.{name} cannot be traced")
        return made

    def __getitem__(self, key: Any) -> Any:
        """The same point in another shape; a mask takes the one point."""
        part = _plain(self)[... if isinstance(key, Traced) else key]
        if np.size(part) != self.size:
            raise TypeError(f"[{key}] of shape {self.shape} cannot be traced")
        return self.steps.traced(part, self.place)

    def __setitem__(self, key: Any, value: Any) -> None:
        """`array[mask] = value`, or all of it."""
        chosen: Any = value if key is ... else np.where(key, value, self)
        _plain(self)[...] = _plain(chosen)
        self.place = chosen.place

    def __bool__(self) -> bool:
        """Raise TypeError: only one branch would be traced."""
        raise TypeError("a branch on a size cannot be traced: take np.where")

    def _freeze(self, *_: Any) -> Any:
        """Raise TypeError: the number of the example would stand for all sizes."""
        raise TypeError("a size as a plain number cannot be traced: keep to arrays")

    __float__ = __int__ = __index__ = item = _freeze

    def any(self, *_: Any, **__: Any) -> Any:
        """True: who asks leaves out steps that no point needs, and the page may need them."""
        return True

    def argmin(self, axis: Any = None, **__: Any) -> Any:  # type: ignore[override]
        """The place of the least."""
        return self.steps.done("argmin", lambda array: array.argmin(axis), self)

    def argmax(self, axis: Any = None, **__: Any) -> Any:  # type: ignore[override]
        """The place of the largest."""
        return self.steps.done("argmax", lambda array: array.argmax(axis), self)

    def astype(self, dtype: Any, **__: Any) -> Any:  # type: ignore[override]
        """Cut off where it becomes a whole number, else the same."""
        if np.issubdtype(dtype, np.integer) and self.dtype.kind == "f":
            return self.steps.done("trunc", lambda array: array.astype(dtype), self)
        return self.steps.traced(_plain(self).astype(dtype), self.place)

    def tobytes(self, *_: Any) -> bytes:
        """Unlike those of any other array, so that no cache takes it for one."""
        return super().tobytes() + f" place {self.place} of {id(self.steps)}".encode()

    def tolist(self) -> Any:
        """The one point."""
        return [self]


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Traced) else value


def _as_json(value: Any) -> Any:
    """Whole numbers without a point."""
    if isinstance(value, float) and math.isinf(value):
        return math.copysign(_LARGEST, value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
