"""A user's CSV of shapes: one column per axis, whole positive numbers."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

_MOST_ERRORS = 20


class ShapesError(ValueError):
    """Everything wrong with a CSV of shapes, one line each."""


def read_shapes(path: Path, axes: Sequence[str]) -> Iterator[tuple[int, dict[str, int]]]:
    """(line number, shape) of every row; other columns are ignored.

    Raises ShapesError naming file, line and column for a missing file or column, an empty file, or
    a size that is not a whole number above zero (up to 20 at once).
    """
    rows = _rows(path, axes)
    errors: list[str] = []
    shapes: list[tuple[int, dict[str, int]]] = []
    for line, row in rows:
        bad = [axis for axis in axes if not _is_size(row[axis])]
        errors += [
            f"{path}:{line}: {axis}={row[axis]!r} is not a whole number above 0" for axis in bad
        ]
        if not bad:
            shapes.append((line, {axis: int(row[axis]) for axis in axes}))
    if errors:
        raise ShapesError("\n".join(errors[:_MOST_ERRORS]))
    if not shapes:
        raise ShapesError(f"{path}: has no rows below its header; give at least one shape")
    yield from shapes


def _rows(path: Path, axes: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            header = list(reader.fieldnames or ())
            missing = [axis for axis in axes if axis not in header]
            rows = [] if missing else [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ShapesError(f"{path}: cannot be read ({error.strerror})") from None
    if missing:
        given = ", ".join(header) or "nothing"
        raise ShapesError(
            f"{path}:1: column {', '.join(missing)} is missing; the header has {given}"
        )
    return rows


def _is_size(text: str | None) -> bool:
    return text is not None and text.strip().isascii() and text.strip().isdigit() and int(text) > 0
