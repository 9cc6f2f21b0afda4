"""The ledger of published claims, config/claims/*.yaml: what others printed, ready to be tested.

The models say what may stand in a file; config/schema/claims.schema.json is made of them. A claim
with a table becomes one entry per row.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date as Date  # noqa: N812 (a type, named as types are)
from pathlib import Path
from typing import Annotated, Final, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Where = dict[str, str | int]  # column of the tidy table -> the value it must have
Quantity = Literal[
    "speedup", "time_us", "tflops", "fraction_of_peak", "fraction_of_bandwidth", "fraction_of_link"
]
Relation = Literal["about", ">=", "<="]
LinkConstant = Annotated[
    str, Field(pattern=r"^link\.[a-z_]+\.[1-9][0-9]*\.(latency_s|bytes_per_s)$")
]  # link.<collective>.<world size>.*
Constant = (
    Literal[
        "launch_graph_s",
        "launch_eager_s",
        "dram_read_bytes_per_s",
        "dram_write_bytes_per_s",
        "dram_copy_bytes_per_s",
    ]
    | LinkConstant
)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AsSource(_Model):
    """The same test on points timed as the source timed them; the verdict does not depend on it.

    points, against: what differs from those of the test.
    """

    label: Text
    points: Where = {}
    against: Where = {}


class Expression(_Model):
    """A statement about measured points, or about a constant of the calibration.

    op, points  rows of the op's tidy table, by default those of the standard protocol (graph,
                cold, normal data, first time, one processor)
    constant    instead of op and points
    against     for a speed-up: what differs in the points it is over (their time / that of points)
    pick        which of several points: only (there must be one), fastest (of all measured ones,
                those of the op's probe too), or the median of all
    quantity    speedup, time_us, tflops; or a fraction of the datasheet's dense rate, of its
                bandwidth of memory, or of that of its links in one direction
    relation    about: within `tolerance` of the value; >= and <=: at most `tolerance` below it,
                above it
    value       their number, in the unit of `quantity`; with `rows` each row has its own
    tolerance   fraction of `value`
    """

    op: Text | None = None
    points: Where = {}
    constant: Constant | None = None
    against: Where | None = None
    pick: Literal["only", "fastest", "median"] = "only"
    quantity: Quantity
    relation: Relation = "about"
    value: Positive | None = None
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.1
    as_source: AsSource | None = None

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Expression":
        if (self.op is None) == (self.constant is None):
            raise ValueError("a test needs either `op` with `points`, or `constant`")
        if (self.quantity == "speedup") != (self.against is not None):
            raise ValueError("a speedup needs `against`, and nothing else may have it")
        if self.quantity == "speedup" and self.pick == "median":
            raise ValueError("a speedup is of single points: pick only or fastest")
        if self.relation == "about" and self.tolerance == 0:
            raise ValueError("`about` needs a tolerance above 0")
        if self.constant and (self.points or self.as_source):
            raise ValueError("a constant is one number: it has neither `points` nor `as_source`")
        if self.constant:
            is_link = self.constant.startswith("link.")
            quantity = "fraction_of_link" if is_link else "fraction_of_bandwidth"
            quantity = quantity if self.constant.endswith("bytes_per_s") else "time_us"
            if self.quantity != quantity:
                raise ValueError(f"'{self.constant}' is a {quantity}, no {self.quantity}")
        if not self.constant and self.quantity == "fraction_of_link":
            raise ValueError("a fraction_of_link is of a constant of links, and of no points")
        return self


class Claim(_Model):
    """One statement of a source; with `rows`, one per row of its table.

    says        in words; {shape} and {value} stand for the row's
    test        None for a claim that cannot be tested here, which `untestable` explains
    printed     the numbers they printed beside the one that is tested, with units in their names
    rows        sizes (by axis, or `cube` for all of them), `value`, and printed numbers
    hardware, device  where they differ from those of the file
    note        what a reader must know to compare
    """

    id: Name
    says: Text
    test: Expression | None = None
    untestable: Text | None = None
    printed: dict[str, Finite] = {}
    rows: Annotated[list[dict[str, Finite]], Field(min_length=1)] | None = None
    hardware: Text | None = None
    device: Text | None = None
    note: str = ""

    @model_validator(mode="after")
    def _has_a_test_or_a_reason(self) -> "Claim":
        if (self.test is None) == (self.untestable is None):
            raise ValueError("a claim needs either `test` or `untestable` with the reason")
        missing = [row for row in self.rows or () if "value" not in row]
        if missing:
            raise ValueError(f"row {missing[0]} has no `value`")
        negative = [row for row in self.rows or () if row["value"] <= 0]
        if negative:
            raise ValueError(f"row {negative[0]} has a `value` that is not above 0")
        if self.test and not self.rows and self.test.value is None:
            raise ValueError("test.value is missing, and required without `rows`")
        if self.test and self.rows and self.test.value is not None:
            raise ValueError("the value stands in `rows` or in `test`, not in both")
        return self


class Ledger(_Model):
    """config/claims/<ledger>.yaml: the claims of one source.

    hardware  what the numbers were made on, in words; `device` is its id in config/devices, if any
    caveat    what holds for all of its claims
    """

    ledger: Name
    title: Text
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    date: Text | int | Date
    hardware: Text
    device: Text | None = None
    caveat: str = ""
    claims: Annotated[list[Claim], Field(min_length=1)]


class ClaimError(ValueError):
    """Everything wrong with the ledgers, one line per file and key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One claim ready to be judged: one row where the source printed a table.

    says     the claim in words, its shape and value filled in
    value    their number, in the unit of the test's quantity; None where they printed none
    printed  what they printed beside it
    points   column -> value of the rows of the tidy table that are tested, sizes included
    """

    id: str
    ledger: Ledger
    claim: Claim
    says: str
    value: float | None
    points: Where
    printed: Mapping[str, float]
    hardware: str
    device: str | None


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
            problems = list(claim_errors(f"{path}: {claim.id}", claim))
            errors += problems
            for entry in [] if problems else _entries_of_claim(ledger, claim):
                if entry.id in file_of_id:
                    errors.append(f"{path}: {entry.id}: is the id of another claim too")
                file_of_id[entry.id] = path
                yield entry


def _entries_of_claim(ledger: Ledger, claim: Claim) -> Iterator[Entry]:
    test = claim.test
    op = BY_NAME.get(test.op) if test and test.op else None
    axes = tuple(op.axes) if op else ("m", "n", "k")
    for row in claim.rows or [{}]:
        sizes: dict[str, str | int] = {axis: int(row[axis]) for axis in axes if axis in row}
        if "cube" in row:
            sizes = dict.fromkeys(axes, int(row["cube"]))
        value = row["value"] if row else test.value if test else None
        tested = (*axes, "cube", "value")
        printed = {key: number for key, number in row.items() if key not in tested}
        distinct = list(sizes.values())
        distinct = distinct[:1] if len(set(distinct)) == 1 else distinct  # one for a cube
        shape = f" {_TIMES} ".join(f"{size:,}" for size in distinct)
        shape += " cubed" if len(distinct) < len(sizes) else ""
        said = claim.says.replace("{shape}", shape)
        yield Entry(
            id="-".join(filter(None, (ledger.ledger, claim.id, "x".join(map(str, distinct))))),
            ledger=ledger,
            claim=claim,
            says=said.replace("{value}", f"{value:.4g}" if value else ""),
            value=value,
            points={**(test.points if test else {}), **sizes},
            printed=claim.printed | printed,
            hardware=claim.hardware or ledger.hardware,
            device=claim.device or ledger.device,
        )


def claim_errors(where: str, claim: Claim) -> Iterator[str]:
    """One line per name in a claim that its op does not have, with the nearest one.

    where: file and claim, for the messages.
    """
    test = claim.test
    if test is None or test.op is None:
        return
    op = BY_NAME.get(test.op)
    if op is None:
        yield f"{where}: unknown op '{test.op}'{did_you_mean_or_all(test.op, BY_NAME)}"
        return
    selections = {"points": test.points, "against": test.against or {}}
    if test.as_source:
        selections["as_source.points"] = test.as_source.points
        selections["as_source.against"] = test.as_source.against
    for name, selection in selections.items():
        yield from _selection_errors(f"{where}: {name}", selection, op)
    for row in claim.rows or ():
        sizes = {key: row[key] for key in ("cube", *op.axes) if key in row}
        if "cube" in sizes and len(sizes) > 1:
            yield f"{where}: rows: {row} has a cube and other sizes"
        missing = [axis for axis in op.axes if axis not in row and "cube" not in row]
        if missing:
            yield f"{where}: rows: {row} has no {', '.join(missing)}"
        for key, size in sizes.items():
            if size != int(size) or size < 1:
                yield f"{where}: rows: {key} is a whole number above 0 (got {size!r})"


def _selection_errors(where: str, selection: Where, op: OpSpec) -> Iterator[str]:
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
