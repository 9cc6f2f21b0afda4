"""CSV files that people bring: named columns, every mistake with its file and line."""

import csv
import difflib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from roofcal.core.files import InputError, read_text

LARGEST_SIZE: Final = 1 << 30  # beyond any matrix that fits a device; products of three stay exact
_MOST_ERRORS: Final = 20

Cells = Mapping[str, str]  # column -> text of one row, without spaces around it


class CsvError(ValueError):
    """Everything wrong with a CSV file, one line each, up to 20."""


def read_rows(
    path: Path,
    columns: Sequence[str],
    row_errors: Callable[[Cells], Iterable[str]],
    optional: Sequence[str] = (),
) -> list[tuple[int, Cells]]:
    """(line number, cells of `columns`) of every row that is not blank; other columns are ignored.

    row_errors  yields what is wrong with the cells of a row
    optional    columns whose cells are there too where the header has them

    Raises CsvError for a file that cannot be read, a missing column, a row too short for its
    header, whatever row_errors yields, and a file without rows.
    """
    header, lines = _read_lines(path)
    missing = [name for name in columns if name not in header]
    if missing:
        names = ", ".join(header) or "nothing"
        meant = {name.lower(): name for name in header if name not in columns}
        hints = [
            f"; did you mean {column} by '{meant[close[0]]}'?"
            for column in missing
            if (close := difflib.get_close_matches(column, list(meant), n=1, cutoff=0.4))
        ]
        raise CsvError(
            f"{path}:1: column {', '.join(missing)} is missing; the header has {names}"
            f"{''.join(hints)}"
        )
    names_here = [*columns, *(name for name in optional if name in header)]
    places = {name: header.index(name) for name in names_here}
    rows: list[tuple[int, Cells]] = []
    errors: list[str] = []
    for number, texts in lines:
        if len(texts) <= max(places.values()):
            errors.append(f"{path}:{number}: has {len(texts)} values, too few for its header")
            continue
        cells = {name: texts[place].strip() for name, place in places.items()}
        errors += [f"{path}:{number}: {error}" for error in row_errors(cells)]
        rows.append((number, cells))
    if errors:
        more = len(errors) - _MOST_ERRORS
        raise CsvError("\n".join(errors[:_MOST_ERRORS] + [f"... and {more} more"] * (more > 0)))
    if not rows:
        raise CsvError(f"{path}: has no rows below its header; give at least one")
    return rows


def read_shapes(path: Path, axes: Sequence[str]) -> list[tuple[int, dict[str, int]]]:
    """(line number, shape) of every row; raises CsvError as read_rows does, and for bad sizes."""
    rows = read_rows(path, axes, lambda cells: size_errors(cells, axes))
    return [(line, {axis: int(cells[axis]) for axis in axes}) for line, cells in rows]


def defused(cell: str) -> str:
    """A text cell, with an apostrophe before what a spreadsheet would run as a formula: '=1+1.

    Numbers stay numbers. Records of strangers carry names and reasons, and =cmd|... in one of them
    runs when somebody opens the table.
    """
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def size_errors(cells: Cells, axes: Iterable[str]) -> Iterator[str]:
    """One line for each axis whose cell is not a size."""
    for axis in axes:
        if not is_size(cells[axis]):
            yield f"{axis}={cells[axis][:40]!r} is not a whole number from 1 to 2^30"


def is_size(text: str) -> bool:
    """Whether a text is a whole number from 1 to LARGEST_SIZE."""
    # int() of a text of 5000 digits raises: hence the length.
    return text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= LARGEST_SIZE


def _read_lines(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """(header, (line number, values) of every row that is not blank) of a CSV file."""
    try:
        text = io.StringIO(read_text(path), newline="")
        reader = csv.reader(text, skipinitialspace=True, strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except InputError as error:
        raise CsvError(str(error)) from None
    except csv.Error as error:  # an unclosed quote, a NUL, a value of 128 KiB
        raise CsvError(f"{path}:{reader.line_num}: is not CSV ({error})") from None
    for name, count in Counter(header).items():
        if count > 1:
            raise CsvError(f"{path}:1: column '{name}' stands {count} times")
    return header, rows
