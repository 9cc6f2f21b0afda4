"""config/claims/*.yaml -> checked claims, one entry per row of a source's table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args, get_type_hints

from roofcal.claims.schema import AwaitedOp, Claim, Expression, Ledger, Where
from roofcal.core.names import did_you_mean_or_all, unknown_names
from roofcal.core.records import Protocol
from roofcal.core.yaml_files import read_yaml, validated
from roofcal.ops import BY_NAME
from roofcal.ops.regimes import REGIMES
from roofcal.ops.spec import OpSpec

_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_PROTOCOL_WORDS: Final = {name: get_args(hint) for name, hint in get_type_hints(Protocol).items()}
# Columns that a test may select by, beside the op's axes -> the values they may have, None for any.
COLUMNS: Final[Mapping[str, tuple[str, ...] | None]] = {
    "provider": None,
    "recipe": None,
    "regime": REGIMES,
    "world_size": None,
    **_PROTOCOL_WORDS,
}


class ClaimError(ValueError):
    """Everything wrong with the ledgers, one line per file and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One claim ready to be judged: one row where the source printed a table.

    says     the claim in words
    value    their number, in the unit of the test's quantity; None where they printed none
    printed  what they printed beside it
    points   column -> value of the rows of the tidy table that are tested, sizes included
    awaited  whether its op is not built yet
    """

    id: str
    ledger: Ledger
    says: str
    test: Expression | None
    untestable: str | None
    value: float | None
    points: Where
    printed: Mapping[str, float]
    hardware: str
    device: str | None
    note: str
    awaited: bool = False


def load_claims(folder: Path) -> list[Entry]:
    """The claims of every file of a folder, by file; [] where there is none.

    Raises ClaimError listing every error of every file.
    """
    errors: list[str] = []
    entries = list(_ledger_entries(folder, errors))
    if errors:
        raise ClaimError("\n".join(errors))
    return entries


def read_ledgers(folder: Path, errors: list[str]) -> list[Ledger]:
    """The ledgers of a folder; what load_claims would raise is added to `errors`."""
    return list(
        {entry.ledger.ledger: entry.ledger for entry in _ledger_entries(folder, errors)}.values()
    )


def _ledger_entries(folder: Path, errors: list[str]) -> Iterator[Entry]:
    file_of_id: dict[str, Path] = {}
    file_of_title: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        before = len(errors)
        content = read_yaml(path, errors)
        ledger = validated(Ledger, content, path, errors) if len(errors) == before else None
        if ledger is None:
            continue
        if ledger.ledger != path.stem:
            errors.append(f"{path}: ledger: '{ledger.ledger}' differs from the file name")
        other = file_of_title.setdefault(ledger.title, path)
        if other != path:
            errors.append(
                f"{path}: title: is that of {other} too; say which part of the source each has"
            )
        for claim in ledger.claims:
            problems = list(claim_errors(f"{path}: {claim.id}", claim, ledger.awaited))
            errors += problems
            for entry in [] if problems else _entries_of_claim(ledger, claim):
                if entry.id in file_of_id:
                    errors.append(f"{path}: {entry.id}: is the id of another claim too")
                file_of_id[entry.id] = path
                yield entry


def _entries_of_claim(ledger: Ledger, claim: Claim) -> Iterator[Entry]:
    test = claim.test
    op = _op_named(test.op, ledger.awaited) if test and test.op else None
    axes = tuple(op.axes) if op else ("m", "n", "k")
    for row in claim.rows or [{}]:
        sizes = _sizes_of_row(row, axes)
        value = row["value"] if row else test.value if test else None
        tested = (*axes, "cube", "value")
        printed = {key: number for key, number in row.items() if key not in tested}
        size_name = "x".join(map(str, _distinct_sizes(sizes)))
        yield Entry(
            id="-".join(filter(None, (ledger.ledger, claim.id, size_name))),
            ledger=ledger,
            says=_in_words(claim.says, sizes, value),
            test=test,
            untestable=claim.untestable,
            value=value,
            points={**(test.points if test else {}), **sizes},
            printed=claim.printed | printed,
            hardware=claim.hardware or ledger.hardware,
            device=claim.device or ledger.device,
            note=claim.note,
            awaited=test is not None and test.op in ledger.awaited and test.op not in BY_NAME,
        )


def _op_named(name: str, awaited: Mapping[str, AwaitedOp]) -> OpSpec | AwaitedOp | None:
    return BY_NAME.get(name) or awaited.get(name)


def _sizes_of_row(row: Mapping[str, float], axes: Sequence[str]) -> dict[str, str | int]:
    """Axis -> size of a row, in which `cube` stands for all axes."""
    if "cube" in row:
        return dict.fromkeys(axes, int(row["cube"]))
    return {axis: int(row[axis]) for axis in axes if axis in row}


def _distinct_sizes(sizes: Where) -> list[str | int]:
    """The sizes of a shape; one for a cube."""
    every = list(sizes.values())
    return every[:1] if len(set(every)) == 1 else every


def _in_words(says: str, sizes: Where, value: float | None) -> str:
    """The sentence of a claim with the shape and the value of a row."""
    distinct = _distinct_sizes(sizes)
    shape = f" {_TIMES} ".join(f"{size:,}" for size in distinct)
    if len(distinct) < len(sizes):
        shape += " cubed"
    return says.replace("{shape}", shape).replace("{value}", f"{value:.4g}" if value else "")


def claim_errors(where: str, claim: Claim, awaited: Mapping[str, AwaitedOp]) -> Iterator[str]:
    """One line per name in a claim that its op does not have, with the nearest one.

    where: file and claim, for the messages.
    awaited: ops that are not built yet, by name.
    """
    test = claim.test
    if test is None or test.op is None:
        return
    op = _op_named(test.op, awaited)
    if op is None:
        hint = did_you_mean_or_all(test.op, [*BY_NAME, *awaited])
        yield f"{where}: unknown op '{test.op}'{hint}"
        return
    selections = {"points": test.points, "against": test.against or {}}
    if test.as_source:
        selections["as_source.points"] = test.as_source.points
        selections["as_source.against"] = test.as_source.against
    for name, selection in selections.items():
        yield from _selection_errors(f"{where}: {name}", selection, op)
    for row in claim.rows or ():
        yield from _row_errors(where, row, op.axes)


def _selection_errors(where: str, selection: Where, op: OpSpec | AwaitedOp) -> Iterator[str]:
    """What is wrong with columns, and with the values they must have."""
    yield from unknown_names(where, "column", selection, (*op.axes, *COLUMNS))
    for column, value in selection.items():
        if column in op.axes or column == "world_size":
            if not isinstance(value, int) or value < 1:
                yield f"{where}: {column} is a whole number above 0 (got {value!r})"
        elif column == "recipe":
            if not op.has_recipe(str(value)):
                hint = did_you_mean_or_all(str(value), op.recipes)
                yield f"{where}: unknown recipe '{value}'{hint}"
        elif column == "provider":
            yield from unknown_names(where, "provider", [str(value)], op.every_provider)
        elif allowed := COLUMNS.get(column):
            yield from unknown_names(where, column, [str(value)], allowed)


def _row_errors(where: str, row: Mapping[str, float], axes: Sequence[str]) -> Iterator[str]:
    """What is wrong with the sizes of a row of a claim's table."""
    sizes = {key: row[key] for key in ("cube", *axes) if key in row}
    if "cube" in sizes and len(sizes) > 1:
        yield f"{where}: rows: {row} has a cube and other sizes"
    missing = [axis for axis in axes if axis not in row and "cube" not in row]
    if missing:
        yield f"{where}: rows: {row} has no {', '.join(missing)}"
    for key, size in sizes.items():
        if size != int(size) or size < 1:
            yield f"{where}: rows: {key} is a whole number above 0 (got {size!r})"
