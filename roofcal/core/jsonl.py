"""JSON Lines files of records: one line is one record, {"record": "Measurement", ...}."""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, overload

from pydantic import TypeAdapter, ValidationError

from roofcal.core.files import InputError, iter_lines, parse_json, write_bytes
from roofcal.core.names import printable
from roofcal.core.paths import RunFolder
from roofcal.core.records import Environment, PlanPoint, Record, contradictions

# 2 added Measurement.quantisation_error; records of version 1 mean what they meant.
# 3 added the visits of a measurement, and what loads the machine of a session; a record without
# any of them is written as version 2, unchanged. 3 also added what a calibration says of its probes
# and its equations.
SCHEMA_VERSION: Final = 3
_READABLE: Final = (1, 2, SCHEMA_VERSION)
_NEWER: Final = frozenset((
    *("visit", "visits", "unsettled_samples", "energy_windows", "peak_bytes"),
    *("busy_share", "other_processes", "throttled_share", "cpu_quota_cores"),
    *("waited_s", "starting_s", "compiling_s"),
    *("probe_spans", "equations", "disturbances"),
))  # fmt: skip
# Not written where empty, so that records without them stay as they were.
_OPTIONAL: Final = _NEWER | {"output_errors", "fastest_rank_s", "rank_medians_s"}
_HEAD: Final = re.compile(rb'\{"record":"(\w+)","schema_version":(\d),')  # as encode writes it
TAKE_ENVIRONMENT: Final = (
    "take it on the device's own machine: roofcal doctor --write-environment results"
)
_MOST_SHOWN: Final = 200  # characters of a bad value in a message
_MOST_BAD_LINES: Final = 10_000  # after so many, a file is no records file

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Record)
_TYPES: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Record)}


class RecordsError(ValueError):
    """A records file that cannot be read; the message names file, line and way out."""


@cache
def _type_adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[kind])


def encode(record: Record) -> str:
    """One JSON line (without the newline) of a record."""
    every = ((f.name, getattr(record, f.name)) for f in fields(record))
    body = {name: value for name, value in every if value or name not in _OPTIONAL}
    version = SCHEMA_VERSION if body.keys() & _NEWER else 2
    head = {"record": type(record).__name__, "schema_version": version}
    return json.dumps(head | body, default=asdict, separators=(",", ":"))


def decode(line: str | bytes, where: str = "record") -> Record:
    """The record of one JSON line.

    Control characters in its texts become visible escapes, because terminals, tables and messages
    show records of strangers: none of them may clear a screen or reverse a line.

    Raises RecordsError, naming `where`, for text that is no JSON in UTF-8, an unknown kind, a newer
    schema, a missing or misspelt field, an impossible value (NaN, a negative time), and fields that
    contradict each other.
    """
    if isinstance(line, bytes) and (at_once := _decoded_at_once(line)) is not None:
        return at_once
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        body = _with_printable_texts(parse_json(text))
        kind = _TYPES[body.pop("record")]
        version = body.pop("schema_version")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = _shortened(f"{type(error).__name__}: {error}")
        raise RecordsError(f"{where}: not a record ({reason})") from None
    if version not in _READABLE:
        raise RecordsError(
            f"{where}: records of schema version {_shortened(repr(version))}, this roofcal reads "
            f"{SCHEMA_VERSION} and older; use the roofcal commit that wrote them, or a newer one"
        )
    try:
        record: Record = _type_adapter(kind.__name__).validate_python(body)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        key = _shortened(".".join(str(part) for part in first["loc"]))
        raise RecordsError(f"{where}: {kind.__name__}.{key}: {first['msg']}") from None
    except (OverflowError, RecursionError) as error:
        raise RecordsError(f"{where}: {kind.__name__}: {error}") from None
    if problem := next(contradictions(record), None):
        raise RecordsError(f"{where}: {kind.__name__}.{problem}")
    return record


def _decoded_at_once(line: bytes) -> Record | None:
    """The record of a line as `encode` writes it; None for one that decode has to look at itself.

    pydantic parses and checks in one go, which takes half of the time of json and a check.
    """
    head = _HEAD.match(line)
    kind = head and _TYPES.get(head[1].decode())
    if head is None or kind is None or int(head[2]) not in _READABLE:
        return None
    if b"NaN" in line or b"Infinity" in line:
        return None
    # Control characters stand behind a backslash, or are DEL or beyond ASCII.
    if b"\\" in line or b"\x7f" in line or not line.isascii():
        return None
    try:
        record: Record = _type_adapter(kind.__name__).validate_json(b"{" + line[head.end() :])
    except ValueError:
        return None
    return None if any(contradictions(record)) else record


def _with_printable_texts(value: Any) -> Any:
    """A value of JSON whose texts, keys among them, have no control characters."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_with_printable_texts(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): _with_printable_texts(item) for key, item in value.items()}
    return value


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write records to `path` (gzip where it ends in .gz) under a temporary name, then rename.

    Nothing half-written is left at `path`: raises OSError (full disk, no permission) before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(encode(record) + "\n" for record in records).encode()
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def append_record(path: Path, record: Record) -> None:
    """Append one line and flush it to the disk, so that a kill loses at most the line in flight."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(encode(record) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def _decoded_lines(path: Path) -> Iterator[Record | RecordsError]:
    """The record or the error of every line of a file, in order; blank lines are left out.

    Raises RecordsError if the file is not there.
    """
    if not path.is_file():
        raise RecordsError(f"{path}: no such records file")
    if path.is_symlink():
        raise RecordsError(f"{path}: is a symbolic link; records are regular files")
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


def iter_records(path: Path) -> Iterator[Record]:
    """The records of a file one by one, so that memory holds one; raises as read_records."""
    for record in _decoded_lines(path):
        if isinstance(record, RecordsError):
            read_records(path)  # raises, and says how many good lines there are
            raise record
        yield record


def read_single_record(path: Path, kind: type[R]) -> R:
    """The record of a file that holds exactly one of a kind, such as environment.jsonl.

    Raises RecordsError for no file, none, for several, and as read_records.
    """
    way_out = f"restore it, or {TAKE_ENVIRONMENT}" if kind is Environment else "restore it"
    if not path.is_file():
        raise RecordsError(f"{path}: no such records file; {way_out}")
    records = read_records(path, kind)
    if len(records) != 1:
        raise RecordsError(
            f"{path}: holds {len(records)} {kind.__name__} records instead of one; {way_out}"
        )
    return records[0]


def read_plan(
    run: RunFolder, op: str, problem_of: Callable[[PlanPoint], str | None]
) -> list[PlanPoint]:
    """The plan of an op in a run.

    problem_of: what is wrong with a point (roofcal.ops.point_problem), or None.
    Raises RecordsError for points of another op or of several devices, for a point with a problem,
    and as read_records.
    """
    path = run.plan_file(op)
    points = read_records(path, PlanPoint)
    strange = sorted({point.op for point in points} - {op})
    if strange:
        raise RecordsError(f"{path}: holds points of {', '.join(strange)}; a plan is of one op")
    devices = sorted({point.device for point in points})
    if len(devices) > 1:
        raise RecordsError(f"{path}: is for several devices: {', '.join(devices)}")
    for number, point in enumerate(points, start=1):
        if problem := problem_of(point):
            raise RecordsError(f"{path}: point {number}: {_shortened(problem)}")
    return points


_WAY_OUT: Final = "mend or delete the bad line and run again; only that point is measured again"


def salvage_records(path: Path) -> tuple[list[Record], list[RecordsError]]:
    """(good records, errors of the bad lines) of a file; raises RecordsError if it is not there.

    One bad byte costs its line, whatever it is: no UTF-8, no JSON, a line of 10 MB.
    """
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
