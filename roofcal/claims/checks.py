"""Whether the expression of a claim can mean anything: its op, columns, recipes, and providers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args, get_type_hints

from roofcal.claims.schema import AwaitedOp, Claim, Where
from roofcal.core.names import did_you_mean_or_all, unknown_names
from roofcal.core.records import Protocol
from roofcal.core.regimes import REGIMES
from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec

_WORDS: Final = {name: get_args(hint) for name, hint in get_type_hints(Protocol).items()}
# Columns that a test may select by, beside the op's axes, and what they may hold if that is fixed.
COLUMNS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "provider": None,
    "recipe": None,
    "regime": REGIMES,
    "world_size": None,
    **_WORDS,
}


def claim_errors(where: str, claim: Claim, awaited: Mapping[str, AwaitedOp]) -> Iterator[str]:
    """One line per name in a claim that its op does not have, with the nearest one."""
    test = claim.test
    if test is None or test.op is None:
        return
    op: OpSpec | AwaitedOp | None = BY_NAME.get(test.op) or awaited.get(test.op)
    if op is None:
        yield f"{where}: unknown op '{test.op}'{did_you_mean_or_all(test.op, [*BY_NAME, *awaited])}"
        return
    other = test.as_source
    parts = {"points": test.points, "against": test.against or {}}
    if other:
        parts |= {"as_source.points": other.points, "as_source.against": other.against}
    for name, part in parts.items():
        yield from _where_errors(f"{where}: {name}", part, op)
    for row in claim.rows or ():
        yield from _row_errors(where, row, op.axes)


def _where_errors(where: str, part: Where, op: OpSpec | AwaitedOp) -> Iterator[str]:
    yield from unknown_names(where, "column", tuple(part), (*op.axes, *COLUMNS))
    for column, value in part.items():
        if column in op.axes or column == "world_size":
            if not isinstance(value, int) or value < 1:
                yield f"{where}: {column} is a whole number above 0 (got {value!r})"
        elif column == "recipe":
            if not _has_recipe(op, str(value)):
                hint = did_you_mean_or_all(str(value), op.recipes)
                yield f"{where}: unknown recipe '{value}'{hint}"
        elif column == "provider":
            yield from unknown_names(where, "provider", [str(value)], _providers(op))
        elif known := COLUMNS.get(column):
            yield from unknown_names(where, column, [str(value)], known)


def _has_recipe(op: OpSpec | AwaitedOp, name: str) -> bool:
    return op.has_recipe(name) if isinstance(op, OpSpec) else name in op.recipes


def _providers(op: OpSpec | AwaitedOp) -> tuple[str, ...]:
    if isinstance(op, AwaitedOp):
        return tuple(op.providers)
    return tuple(dict.fromkeys(name for names in op.providers.values() for name in names))


def _row_errors(where: str, row: Mapping[str, float], axes: Sequence[str]) -> Iterator[str]:
    sizes = {key: row[key] for key in ("cube", *axes) if key in row}
    if "cube" in sizes and len(sizes) > 1:
        yield f"{where}: rows: {row} has a cube and other sizes"
    missing = [axis for axis in axes if axis not in row and "cube" not in row]
    if missing:
        yield f"{where}: rows: {row} has no {', '.join(missing)}"
    for key, size in sizes.items():
        if size != int(size) or size < 1:
            yield f"{where}: rows: {key} is a whole number above 0 (got {size!r})"
