"""config/claims/*.yaml -> checked claims, one per row of a source's table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofcal.claims.checks import claim_errors
from roofcal.claims.schema import AwaitedOp, Claim, Expression, Ledger, Where
from roofcal.core.yaml_files import read_yaml, validated
from roofcal.ops import BY_NAME

_TIMES: Final = "\N{MULTIPLICATION SIGN}"


class ClaimError(ValueError):
    """Everything wrong with the ledgers, one line per file and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One claim ready to be judged: of a row where the source printed a table.

    value    theirs, in the unit of the test's quantity; None where they printed no such number
    printed  what they printed beside it
    points   rows of the tidy table, sizes included
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
    entries = list(_entries(folder, errors))
    if errors:
        raise ClaimError("\n".join(errors))
    return entries


def read_ledgers(folder: Path, errors: list[str]) -> list[Ledger]:
    """The ledgers of a folder; what load_claims would raise is added to `errors`."""
    return list({entry.ledger.ledger: entry.ledger for entry in _entries(folder, errors)}.values())


def _entries(folder: Path, errors: list[str]) -> Iterator[Entry]:
    seen: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        before = len(errors)
        content = read_yaml(path, errors)
        ledger = validated(Ledger, content, path, errors) if len(errors) == before else None
        if ledger is None:
            continue
        if ledger.ledger != path.stem:
            errors.append(f"{path}: ledger: '{ledger.ledger}' differs from the file name")
        for claim in ledger.claims:
            found = list(claim_errors(f"{path}: {claim.id}", claim, ledger.awaited))
            errors += found
            for entry in [] if found else _rows(ledger, claim):
                if entry.id in seen:
                    errors.append(f"{path}: {entry.id}: is the id of another claim too")
                seen[entry.id] = path
                yield entry


def _rows(ledger: Ledger, claim: Claim) -> Iterator[Entry]:
    axes = _axes(claim, ledger.awaited)
    for row in claim.rows or [{}]:
        sizes = _sizes(row, axes)
        test = claim.test
        value = row["value"] if row else test.value if test else None
        named = "x".join(map(str, _short(sizes)))
        yield Entry(
            id="-".join(filter(None, (ledger.ledger, claim.id, named))),
            ledger=ledger,
            says=_said(claim.says, sizes, value),
            test=test,
            untestable=claim.untestable,
            value=value,
            points={**(test.points if test else {}), **sizes},
            printed=claim.printed | _printed(row, axes),
            hardware=claim.hardware or ledger.hardware,
            device=claim.device or ledger.device,
            note=claim.note,
            awaited=test is not None and test.op in ledger.awaited and test.op not in BY_NAME,
        )


def _axes(claim: Claim, awaited: Mapping[str, AwaitedOp]) -> tuple[str, ...]:
    op = claim.test.op if claim.test else None
    known = (BY_NAME.get(op) or awaited.get(op)) if op else None
    return tuple(known.axes) if known else ("m", "n", "k")


def _sizes(row: Mapping[str, float], axes: Sequence[str]) -> dict[str, str | int]:
    if "cube" in row:
        return dict.fromkeys(axes, int(row["cube"]))
    return {axis: int(row[axis]) for axis in axes if axis in row}


def _printed(row: Mapping[str, float], axes: Sequence[str]) -> dict[str, float]:
    return {key: number for key, number in row.items() if key not in (*axes, "cube", "value")}


def _short(sizes: Where) -> list[str | int]:
    """The sizes of a shape, one for a cube."""
    every = list(sizes.values())
    return every[:1] if len(set(every)) == 1 else every


def _said(says: str, sizes: Where, value: float | None) -> str:
    shape = f" {_TIMES} ".join(f"{size:,}" for size in _short(sizes))
    if len(_short(sizes)) < len(sizes):
        shape += " cubed"
    return says.replace("{shape}", shape).replace("{value}", f"{value:.4g}" if value else "")
