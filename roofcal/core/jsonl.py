"""JSON Lines files of records: one line is one record, {"record": "Measurement", ...}."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from roofcal.core.files import InputError, iter_lines, parse_json, write_bytes
from roofcal.core.paths import RunFolder
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Record,
    Session,
    contradiction,
)

# 2 added Measurement.quantisation_error; records of version 1 mean what they meant.
SCHEMA_VERSION: Final = 2
_READABLE: Final = (1, SCHEMA_VERSION)
# Not written where empty, so that records without them stay as they were.
_OPTIONAL: Final = ("output_errors", "fastest_rank_s", "rank_medians_s")
_MOST_SHOWN: Final = 200  # characters of a bad value in a message
_MOST_BAD_LINES: Final = 10_000  # after so many, a file is no records file

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Record)
_TYPES: Final = {
    kind.__name__: kind
    for kind in (PlanPoint, Environment, Session, Measurement, Calibration, Prediction)
}


class RecordsError(ValueError):
    """A records file that cannot be read; the message names file, line and way out."""


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[kind])


def encode(record: Record) -> str:
    """One JSON line (without the newline) of a record."""
    head = {"record": type(record).__name__, "schema_version": SCHEMA_VERSION}
    every = ((f.name, getattr(record, f.name)) for f in fields(record))
    body = {name: value for name, value in every if value or name not in _OPTIONAL}
    return json.dumps(head | body, default=_plain, separators=(",", ":"))


def decode(line: str | bytes, where: str = "record") -> Record:
    """The record of one JSON line.

    Raises RecordsError, naming `where`, for text that is no JSON in UTF-8, an unknown kind, a newer
    schema, a missing or misspelt field, a value that cannot be (NaN, a negative time), and fields
    that contradict each other.
    """
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        body = parse_json(text)
        kind = _TYPES[body.pop("record")]
        version = body.pop("schema_version")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = _shortened(f"{type(error).__name__}: {error}")
        raise RecordsError(f"{where}: not a record ({reason})") from None
    if version not in _READABLE:
        raise RecordsError(_version_message(where, version))
    record = _validated(kind, body, where)
    problem = contradiction(record)
    if problem:
        raise RecordsError(f"{where}: {kind.__name__}.{problem}")
    return record


def _validated(kind: type[Any], body: Any, where: str) -> Record:
    try:
        record: Record = _adapter(kind.__name__).validate_python(body)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = _shortened(".".join(str(part) for part in first["loc"]))
        raise RecordsError(f"{where}: {kind.__name__}.{key}: {first['msg']}") from None
    except (OverflowError, RecursionError) as error:
        raise RecordsError(f"{where}: {kind.__name__}: {error}") from None
    return record


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _version_message(where: str, version: Any) -> str:
    return (
        f"{where}: records of schema version {_shortened(repr(version))}, this roofcal reads "
        f"{SCHEMA_VERSION} and older; use the roofcal commit that wrote them, or a newer one"
    )


def _plain(value: Any) -> Any:
    return asdict(value)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records to `path` (gzip where it ends in .gz) under a temporary name, then rename.

    Nothing half-written is left at `path`: raises OSError (full disk, no permission) before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(encode(record) + "\n" for record in records)
    write_bytes(path, gzip.compress(text.encode(), mtime=0) if _zipped(path) else text.encode())


def append_record(path: Path, record: Record) -> None:
    """Append one line and flush it to the disk, so that a kill loses at most the line in flight."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(encode(record) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _decoded_lines(path: Path) -> Iterator[Record | RecordsError]:
    """The record or the error of every line of a file, in order; blank lines are left out."""
    for number, line in iter_lines(path):
        if isinstance(line, InputError):
            yield RecordsError(str(line))
        elif line.strip():
            try:
                yield decode(line, f"{path}:{number}")
            except RecordsError as error:
                yield error


@overload
def read_records(path: Path, kind: type[R], /) -> list[R]: ...
@overload
def read_records(path: Path, first: type[R], second: type[S], /) -> list[R | S]: ...
@overload
def read_records(path: Path) -> list[Record]: ...
def read_records(path: Path, *kinds: type[Any]) -> list[Any]:
    """All records of a file, of the given kinds where any is named.

    Raises RecordsError naming the first bad line, and how many good ones there are to keep with
    `salvage_records`.
    """
    good, bad = salvage_records(path)
    if bad:
        raise RecordsError(f"{bad[0]}\n{len(good)} good lines of {path} are untouched: {_WAY_OUT}")
    return [record for record in good if not kinds or isinstance(record, kinds)]


def read_single_record(path: Path, kind: type[R]) -> R:
    """The record of a file that holds exactly one of a kind, such as environment.jsonl.

    Raises RecordsError for none, for several, and as read_records.
    """
    records = read_records(path, kind)
    if len(records) != 1:
        raise RecordsError(f"{path}: holds {len(records)} {kind.__name__} records instead of one")
    return records[0]


def read_plan(run: RunFolder, op: str) -> list[PlanPoint]:
    """The plan of an op in a run.

    Raises RecordsError for points of another op or of several devices, and as read_records.
    """
    path = run.plan_file(op)
    points = read_records(path, PlanPoint)
    strange = sorted({point.op for point in points} - {op})
    if strange:
        raise RecordsError(f"{path}: holds points of {', '.join(strange)}; a plan is of one op")
    devices = sorted({point.device for point in points})
    if len(devices) > 1:
        raise RecordsError(f"{path}: is for several devices: {', '.join(devices)}")
    return points


_WAY_OUT: Final = "mend or delete the bad line and run again; only that point is measured again"


def salvage_records(path: Path) -> tuple[list[Record], list[RecordsError]]:
    """(good records, errors of the bad lines) of a file; raises RecordsError if it is not there.

    One bad byte costs its line, whatever it is: no UTF-8, no JSON, a line of 10 MB.
    """
    if not path.is_file():
        raise RecordsError(f"{path}: no such records file")
    good: list[Record] = []
    bad: list[RecordsError] = []
    for record in _decoded_lines(path):
        if not isinstance(record, RecordsError):
            good.append(record)
            continue
        bad.append(record)
        if len(bad) >= _MOST_BAD_LINES:
            bad.append(RecordsError(f"{path}: has {len(bad)} bad lines; the rest is not read"))
            break
    return good, bad


def _zipped(path: Path) -> bool:
    return path.suffix == ".gz"
