"""The records every stage reads and writes, and their JSON Lines files.

One line is one record: {"record": "Measurement", "schema_version": 2, ...}. Records hold what was
observed; medians, rates and errors are functions of records, so a better statistic never needs the
GPU again. Quantities are in SI units, named by suffix.
"""

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TextIO, TypeVar, overload

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from roofcal.core.files import write_bytes
from roofcal.core.protocols import CacheState, Distribution, Method

# 2 added Measurement.quantisation_error; records of version 1 mean what they meant.
SCHEMA_VERSION: Final = 2
_READABLE: Final = (1, SCHEMA_VERSION)

Status = Literal["ok", "unsupported", "incorrect", "out_of_memory", "timeout", "failed"]
_STRICT: Final = ConfigDict(extra="forbid")
# Not written where empty, so that records without them stay as they were.
_OPTIONAL: Final = ("output_errors", "fastest_rank_s", "rank_medians_s")


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a point is timed: part of its identity, because it changes the number.

    method        graph: replay of a CUDA graph over rotating copies (on a CPU: a timed loop);
                  events_flush: events around one call after a flush of the cache;
                  profiler: kernel time by CUPTI; wall: host clock around eager calls;
                  accuracy: not timed, one call for the errors of its outputs
    cache         cold: rotating copies together > 2x the last-level cache; hot: one copy
    distribution  of the input values, see roofcal.ops.bench.draw
    """

    method: Method = "graph"
    cache: CacheState = "cold"
    distribution: Distribution = "normal"


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoint:
    """One thing to measure. `sweeps` says why it is in the plan and is no part of its identity."""

    op: str
    provider: str
    recipe: str
    shape: Mapping[str, int]
    device: str
    world_size: int = 1
    protocol: Protocol = Protocol()
    repeat: int = 0
    sweeps: tuple[str, ...] = ()

    @property
    def point_id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON of what identifies the point."""
        identity = asdict(self)
        del identity["sweeps"]
        return hashlib.sha256(canonical_json(identity)).hexdigest()[:16]

    @property
    def group_key(self) -> str:
        """Equal for points that are timed in turns: same op, shape, protocol and repeat."""
        shape = ",".join(f"{axis}={size:012d}" for axis, size in sorted(self.shape.items()))
        how = ",".join((self.protocol.method, self.protocol.cache, self.protocol.distribution))
        return f"{self.op},{shape},{how},{self.world_size},{self.repeat}"


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the numbers depend on: the processor and the software under it.

    Host name, GPU uuid, commit and time differ between sessions of one environment: see Session.
    """

    device: str
    vendor: Literal["nvidia", "amd", "cpu"]
    device_name: str
    compute_units: int
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    memory_bytes: int | None = None
    last_level_cache_bytes: int | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str
    triton: str | None = None
    cublas: str | None = None
    nccl: str | None = None
    python: str
    threads: int | None = None

    @property
    def backend(self) -> Literal["cuda", "cpu"]:
        """Where its kernels run, in the words of torch ("cuda" covers ROCm)."""
        return "cpu" if self.vendor == "cpu" else "cuda"

    @property
    def environment_id(self) -> str:
        """Readable id: driver, torch and triton version and a hash of every field."""
        digest = hashlib.sha256(canonical_json(asdict(self))).hexdigest()[:8]
        named = (("driver", self.driver), ("torch", self.torch), ("triton", self.triton))
        parts = [f"{name}{version}" for name, version in named if version]
        return "-".join([*parts, digest])


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Provenance of the measurements of one run of `measure`.

    device_uuid: of the card; of several, those of all ranks with commas between.
    """

    session_id: str
    environment_id: str
    op: str
    host: str
    device_uuid: str | None
    git_commit: str | None
    git_dirty: bool | None
    code_hash: str
    command: str
    timing: Mapping[str, Any]
    started_utc: str
    finished_utc: str | None = None
    wall_s: float | None = None
    timed_s: float | None = None

    @property
    def cards(self) -> tuple[str, ...]:
        """The cards it ran on, as far as they have names."""
        return tuple(self.device_uuid.split(",")) if self.device_uuid else ()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """State of the card while samples were taken; parallel lists, one entry per reading."""

    sample_index: tuple[int, ...] = ()
    sm_clock_hz: tuple[float, ...] = ()
    memory_clock_hz: tuple[float, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[float, ...] = ()
    throttle_reasons: tuple[tuple[str, ...], ...] = ()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was observed at one point.

    latency_samples_s  seconds per call, every sample in order, warm-up included, never filtered
    warmup_samples     how many of them came before the clock had settled
    slice_starts       index of the first sample of each of the contender's turns
    calls_per_sample   calls that one sample averages over
    rotating_bytes     bytes of all rotating copies of inputs and outputs together
    relative_error     ||out - reference|| / ||reference|| on the same inputs, before timing
    quantisation_error the same distance between the product of the quantised operands and that of
                       the operands before: what the format costs, whoever multiplies. None: not
                       measured, as in records of schema version 1
    output_errors      relative_error of each output by name, for ops with several that say them;
                       None, and not written, for all others
    fastest_rank_s     on several devices a sample is the slowest rank's; this is the fastest's
    rank_medians_s     on several devices: the median settled sample of each rank
    """

    point_id: str
    environment_id: str
    session_id: str
    status: Status
    reason: str | None = None
    latency_samples_s: tuple[float, ...] = ()
    warmup_samples: int = 0
    slice_starts: tuple[int, ...] = ()
    calls_per_sample: int = 1
    rotating_copies: int = 1
    rotating_bytes: int = 0
    relative_error: float | None = None
    quantisation_error: float | None = None
    output_errors: Mapping[str, float] | None = None
    telemetry: Telemetry = Telemetry()
    kernel_names: tuple[str, ...] = ()
    started_s: float = 0.0
    elapsed_s: float = 0.0
    fastest_rank_s: tuple[float, ...] = ()
    rank_medians_s: tuple[float, ...] = ()

    @property
    def settled_samples_s(self) -> tuple[float, ...]:
        """The samples taken after the clock had settled."""
        return self.latency_samples_s[self.warmup_samples :]


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A calibrated constant with its 95 % interval and the records it was fitted on."""

    value: float
    ci95_low: float
    ci95_high: float
    unit: str
    evidence: str


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Constants of one device in one environment, fitted on probe measurements alone."""

    device: str
    environment_id: str
    constants: Mapping[str, Ceiling]
    probe_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    probe_points: int = 0
    seed: int = 0


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a model of time says of a point. Parts are None where the model has no such part."""

    point_id: str
    model: str
    math_s: float | None
    dram_s: float | None
    link_s: float | None
    launch_s: float | None
    total_s: float
    low_s: float | None = None
    high_s: float | None = None
    bound_by: str


Record = PlanPoint | Environment | Session | Measurement | Calibration | Prediction
R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=Record)
_TYPES: Final = {
    kind.__name__: kind
    for kind in (PlanPoint, Environment, Session, Measurement, Calibration, Prediction)
}


class RecordsError(ValueError):
    """A records file that cannot be read; the message names file, line and way out."""


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[kind])


def encode(record: Record) -> str:
    """One JSON line (without the newline) of a record."""
    head = {"record": type(record).__name__, "schema_version": SCHEMA_VERSION}
    every = ((f.name, getattr(record, f.name)) for f in fields(record))
    body = {name: value for name, value in every if value or name not in _OPTIONAL}
    return json.dumps(head | body, default=_plain, separators=(",", ":"))


def decode(line: str, where: str = "record") -> Record:
    """The record of one JSON line.

    Raises RecordsError, naming `where`, for text that is no JSON, an unknown kind, a newer schema,
    a missing or misspelt field or a value of the wrong type.
    """
    try:
        body = json.loads(line)
        kind = _TYPES[body.pop("record")]
        version = body.pop("schema_version")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordsError(f"{where}: not a record ({type(error).__name__}: {error})") from None
    if version not in _READABLE:
        raise RecordsError(_version_message(where, version))
    return _validated(kind, body, where)


def _validated(kind: type[Any], body: Any, where: str) -> Record:
    try:
        record: Record = _adapter(kind.__name__).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise RecordsError(f"{where}: {kind.__name__}.{key}: {first['msg']}") from None
    return record


def _version_message(where: str, version: Any) -> str:
    return (
        f"{where}: records of schema version {version!r}, this roofcal reads {SCHEMA_VERSION} and "
        "older; use the roofcal commit that wrote them, or a newer one"
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


def iter_lines(path: Path) -> Iterator[tuple[str, Record | RecordsError]]:
    """Every line of a file as (where, record or the error of that line), in order."""
    with _opened(path) as stream:
        number = 0
        try:
            for number, line in enumerate(stream, start=1):
                where = f"{path}:{number}"
                try:
                    yield where, decode(line, where)
                except RecordsError as error:
                    yield where, error
        except (EOFError, OSError, UnicodeDecodeError) as error:
            where = f"{path}:{number + 1}"
            yield where, RecordsError(f"{where}: {path.name} is cut off or damaged here ({error})")


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


_WAY_OUT: Final = "mend or delete the bad line and run again; only that point is measured again"


def salvage_records(path: Path) -> tuple[list[Record], list[RecordsError]]:
    """(good records, errors of the bad lines) of a file; raises RecordsError if it is not there."""
    if not path.is_file():
        raise RecordsError(f"{path}: no such records file")
    good: list[Record] = []
    bad: list[RecordsError] = []
    for _, record in iter_lines(path):
        if isinstance(record, RecordsError):
            bad.append(record)
        else:
            good.append(record)
    return good, bad


def _opened(path: Path) -> TextIO:
    if _zipped(path):
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _zipped(path: Path) -> bool:
    return path.suffix == ".gz"
