"""Tables of the site: cells with links, written by the template in the mark-up of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roofcal.report.kit.blocks import Column
from roofcal.report.kit.numbers import MISSING, is_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value as it is shown; `mark` is the number to sort by, or the class of a verdict."""

    text: str
    kind: str
    mark: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table ready for the template."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def make_grid(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    id: str,
    caption: str,
    links: Mapping[str, str] | None = None,
) -> Grid:
    """A table of those `columns` that have a value in any row.

    links: key of a column -> key of the address that its cells lead to; rows without one have no
    link.
    """
    filled = [c for c in columns if any(not is_missing(row.get(c.key)) for row in rows)] or columns
    cells = [[_cell(row, column, links or {}) for column in filled] for row in rows]
    return Grid(id=id, caption=caption, columns=filled, rows=cells)


def _cell(row: Mapping[str, Any], column: Column, links: Mapping[str, str]) -> Cell:
    value, number = row.get(column.key), row.get(column.sort_key or column.key)
    if is_missing(value):
        return Cell(text=MISSING, kind=column.kind)
    if column.kind == "number":
        mark = "" if is_missing(number) else f"{number:.6g}"
    else:
        mark = column.signs.get(str(value), "")
    href = row.get(links.get(column.key, ""), "")
    return Cell(text=column.show(value), kind=column.kind, mark=mark, href=href or "")
