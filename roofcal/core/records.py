"""The records every stage reads and writes; roofcal.core.jsonl has their files.

Records hold what was observed; medians, rates and errors are functions of records, so a better
statistic never needs the GPU again. Quantities are in SI units, named by suffix; docs/data.md says
what each field is, and here stands what it does not say.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import ConfigDict, Field, with_config

from roofcal.core.names import LABEL_PATTERN, MODEL_PATTERN, NAME_PATTERN, is_name

Method = Literal[
    "graph", "alone", "burst", "energy", "events_flush", "profiler", "wall", "accuracy"
]
_WITHOUT_OTHERS: Final = (
    "alone",
    "burst",
    "energy",
)  # methods whose points take turns with no other
# Methods whose points are visited once: they are only compared with visits of method graph, and one
# visit of those of `standard` takes an H200 63 s.
VISITED_ONCE: Final = ("accuracy", *_WITHOUT_OTHERS)
CacheState = Literal["cold", "hot"]
Distribution = Literal["normal", "outlier_channels", "heavy_tails", "all_positive", "zeros"]
Status = Literal["ok", "unsupported", "incorrect", "out_of_memory", "timeout", "failed"]
TIMELESS: Final = frozenset(get_args(Status)) - {"ok"}  # tried without success: no time
_STRICT: Final = ConfigDict(extra="forbid")
_ROUNDING: Final = 1e-6  # relative
_MOST: Final = 1 << 53  # the largest whole number up to which floats are exact
_LEAST_CONSTANT: Final = 1e-30  # in SI units; 1e-15 s for a byte is far above
# Fields of Environment that enter its id only where they have a value: older ids stay valid.
_LATER_FIELDS: Final = ("cpu_quota_cores",)
CODE: Final = "code"  # unit of a constant that stands for a name, see roofcal.ops.constants
# Ends the evidence of a constant that probes do not tell, and that its equation needs.
ON_BOUND: Final = "not identified: on a bound of its search"

# What reading checks; nothing is checked where the code itself makes a record.
Name = Annotated[str, Field(pattern=NAME_PATTERN)]  # becomes part of a path
Label = Annotated[str, Field(pattern=LABEL_PATTERN)]
SweepName = Annotated[str, Field(max_length=300)]  # a key of a sweep file, which people choose
Size = Annotated[int, Field(ge=1, le=_MOST)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a point is timed: part of its identity, because it changes the number.

    method        graph: replay of a CUDA graph over rotating copies (on a CPU: a timed loop);
                  alone: as graph, but no other contender takes turns with it, and its turns are
                  long: what it does by itself at the power limit of the card;
                  burst: as graph, the first 20 ms after a rest of the card;
                  energy: as alone, for two windows of more than five seconds, after one at rest,
                  over which the energy counter of the card is read;
                  events_flush: events around one call after a flush of the cache;
                  profiler: kernel time by CUPTI; wall: host clock around eager calls;
                  accuracy: one call for the distance of each output from the reference. It is not
                  timed: its row is ok without samples, however large the error (a NaN is
                  incorrect), and it runs without torch.compile, which costs seconds per point and
                  computes the same
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

    op: Name
    provider: Label
    recipe: Label
    shape: Mapping[Label, Size]
    device: Name
    world_size: Size = 1
    protocol: Protocol = Protocol()
    repeat: Count = 0
    sweeps: tuple[SweepName, ...] = ()

    @property
    def point_id(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON of what identifies the point."""
        # asdict copies deeply, which took half of the time of a report of 20,000 points
        identity = {name: getattr(self, name) for name in self.__slots__ if name != "sweeps"}
        protocol = {name: getattr(self.protocol, name) for name in self.protocol.__slots__}
        identity |= {"shape": dict(self.shape), "protocol": protocol}
        return hashlib.sha256(canonical_json(identity)).hexdigest()[:16]

    @property
    def group_key(self) -> str:
        """Equal for points that take turns: those of the same op, shape, protocol and repeat.

        A point of a method that times it without others is a group of its own.
        """
        shape = ",".join(f"{axis}={size:012d}" for axis, size in sorted(self.shape.items()))
        how = ",".join((self.protocol.method, self.protocol.cache, self.protocol.distribution))
        key = f"{self.op},{shape},{how},{self.world_size},{self.repeat}"
        is_alone = self.protocol.method in _WITHOUT_OTHERS
        return f"{key},{self.recipe},{self.provider}" if is_alone else key


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the numbers depend on: the processor and the software under it.

    Host name, GPU uuid, commit and time differ between sessions of one environment: see Session.
    """

    device: Name
    vendor: Literal["nvidia", "amd", "cpu"]
    device_name: str
    compute_units: Size
    memory_clock_hz: Positive | None = None
    memory_bus_bits: Size | None = None
    memory_bytes: Size | None = None
    last_level_cache_bytes: Size | None = None
    power_limit_w: Positive | None = None
    ecc: bool | None = None
    mig: bool | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str
    triton: str | None = None
    cublas: str | None = None
    nccl: str | None = None
    python: str
    threads: Size | None = None
    cpu_quota_cores: Positive | None = None

    @property
    def backend(self) -> Literal["cuda", "cpu"]:
        """Where its kernels run, in the words of torch ("cuda" covers ROCm)."""
        return "cpu" if self.vendor == "cpu" else "cuda"

    @property
    def environment_id(self) -> str:
        """Readable id: driver, torch and triton version and a hash of every field."""
        every = asdict(self).items()
        hashed = {name: value for name, value in every if value or name not in _LATER_FIELDS}
        digest = hashlib.sha256(canonical_json(hashed)).hexdigest()[:8]
        named = (("driver", self.driver), ("torch", self.torch), ("triton", self.triton))
        parts = [f"{name}{version}" for name, version in named if version]
        return "-".join([*parts, digest])


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Provenance of the measurements of one run of `measure`."""

    session_id: str
    environment_id: Name
    op: Name
    host: str
    device_uuid: str | None
    git_commit: str | None
    git_dirty: bool | None
    code_hash: str
    command: str
    timing: Mapping[str, int | Finite]
    started_utc: str
    finished_utc: str | None = None
    wall_s: NotNegative | None = None
    timed_s: NotNegative | None = None
    busy_share: NotNegative | None = None
    other_processes: Count | None = None
    throttled_share: NotNegative | None = None
    waited_s: NotNegative | None = None
    starting_s: NotNegative | None = None
    compiling_s: NotNegative | None = None

    @property
    def cards(self) -> tuple[str, ...]:
        """The cards it ran on, as far as they have names."""
        return tuple(self.device_uuid.split(",")) if self.device_uuid else ()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """State of the card while samples were taken; parallel lists, one entry per reading."""

    sample_index: tuple[Count, ...] = ()
    sm_clock_hz: tuple[NotNegative, ...] = ()
    memory_clock_hz: tuple[NotNegative, ...] = ()
    power_w: tuple[NotNegative, ...] = ()
    temperature_c: tuple[Finite, ...] = ()
    throttle_reasons: tuple[tuple[str, ...], ...] = ()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """How much the energy counter of the board rose between two of its updates.

    is_rest  at rest with the contender in its memory
    """

    joules: NotNegative
    seconds: Positive
    is_rest: bool = False


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One visit to a point: memory allocated anew, warmed up and timed, at a time of its own.

    first_sample    index of its first sample in the lists of the measurement
    warmup_samples  how many samples from there on came before the clock had settled
    started_s       seconds since its session began
    """

    first_sample: Count
    warmup_samples: Count
    session_id: str
    started_s: Finite = 0.0
    elapsed_s: NotNegative = 0.0


SettledTurns = tuple[tuple[tuple[float, ...], ...], ...]  # samples in s, by visit and turn


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What was observed at one point.

    A line of a journal is one visit, `visit` says the number of it; a row of a run's measurements
    holds all visits of its point one after the other.

    latency_samples_s  never filtered
    warmup_samples     of the first visit
    visits             empty in records of schema versions 1 and 2, which made one visit
    calls_per_sample   calls that one sample averages over
    peak_bytes         None, and not written: not replayed from a graph on a GPU, or from before
    relative_error     of the first visit by a process; its later visits, with equal inputs, have
                       the same
    quantisation_error None: not measured, as in records of schema version 1
    output_errors      None, and not written, for ops with one output
    """

    point_id: str
    environment_id: Name
    session_id: str
    status: Status
    reason: str | None = None
    latency_samples_s: tuple[Positive, ...] = ()
    warmup_samples: Count = 0
    slice_starts: tuple[Count, ...] = ()
    unsettled_samples: tuple[Count, ...] = ()
    visit: Count = 0
    visits: tuple[Visit, ...] = ()
    calls_per_sample: Size = 1
    rotating_copies: Size = 1
    rotating_bytes: Count = 0
    peak_bytes: Count | None = None
    relative_error: NotNegative | None = None
    quantisation_error: NotNegative | None = None
    output_errors: Mapping[Label, NotNegative] | None = None
    telemetry: Telemetry = Telemetry()
    kernel_names: tuple[str, ...] = ()
    started_s: Finite = 0.0
    elapsed_s: NotNegative = 0.0
    fastest_rank_s: tuple[Positive, ...] = ()
    rank_medians_s: tuple[Positive, ...] = ()
    energy_windows: tuple[EnergyWindow, ...] = ()

    @property
    def settled_turns_s(self) -> SettledTurns:
        """The samples that count, by visit and turn: those taken while the clock was its own."""
        return tuple(
            tuple(self.latency_samples_s[first:end] for _, first, end in turns if first < end)
            for turns in self.settled_turn_bounds
        )

    @property
    def settled_samples_s(self) -> tuple[float, ...]:
        """The samples that count, of all visits."""
        return tuple(s for turns in self.settled_turns_s for turn in turns for s in turn)

    @property
    def settled_readings(self) -> tuple[int, ...]:
        """Positions of the telemetry readings beside samples that count."""
        bounds = [turn for turns in self.settled_turn_bounds for turn in turns]
        firsts, ends = [first for _, first, _ in bounds], [0, *(end for *_, end in bounds)]
        return tuple(
            position
            for position, index in enumerate(self.telemetry.sample_index)
            if index < ends[bisect_right(firsts, index)]  # of the last turn that began before
        )

    @property
    def settled_turn_bounds(self) -> list[list[tuple[int, int, int]]]:
        """(start, first sample that counts, end) of each settled turn, by visit."""
        count = len(self.latency_samples_s)
        visits = [(v.first_sample, v.warmup_samples) for v in self.visits]
        visits = visits or [(0, self.warmup_samples)]
        ends = [*(first for first, _ in visits[1:]), count]
        unsettled = self.unsettled_samples or (0,) * len(self.slice_starts)
        starts = dict(zip(self.slice_starts, unsettled, strict=True))
        settled_turns = []
        for (first, warmup), end in zip(visits, ends, strict=True):
            settled = first + warmup
            turns = [start for start in self.slice_starts if settled <= start < end]
            if not turns or turns[0] != settled:  # a record that does not say where a turn starts
                turns = [settled, *turns]
            bounds = zip(turns, [*turns[1:], end], strict=True)
            settled_turns.append(
                [(start, start + starts.get(start, 0), stop) for start, stop in bounds]
            )
        return settled_turns


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A calibrated constant with its 95 % interval and the records it was fitted on."""

    value: NotNegative
    ci95_low: Finite
    ci95_high: Finite
    unit: str
    evidence: str


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Constants of one device in one environment, fitted on probe measurements alone.

    probe_spans  "<op>.<provider>.<recipe>" -> axis, bytes or flops -> (least, most) of its probes
    equations    op -> number of the equation that the constants are of (EQUATION in its model.py)
    disturbances  why these constants are too noisy to use, one sentence each; empty, and not
                  written, for a quiet machine
    """

    device: Name
    environment_id: Name
    constants: Mapping[Label, Ceiling]
    probe_errors: Mapping[str, Mapping[str, Finite]] = field(default_factory=dict)
    probe_spans: Mapping[str, Mapping[str, tuple[Positive, Positive]]] = field(default_factory=dict)
    equations: Mapping[str, Count] = field(default_factory=dict)
    disturbances: tuple[str, ...] = ()
    probe_points: Count = 0
    seed: int = 0


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The time that a model predicts for a point. Parts that the model does not have are None."""

    point_id: str
    model: Annotated[str, Field(pattern=MODEL_PATTERN)]
    math_s: NotNegative | None
    dram_s: NotNegative | None
    link_s: NotNegative | None
    launch_s: NotNegative | None
    total_s: Positive
    low_s: NotNegative | None = None
    high_s: Positive | None = None
    bound_by: Label


Record = PlanPoint | Environment | Session | Measurement | Calibration | Prediction


def contradictions(record: Record) -> Iterator[str]:
    """Each field of a record that contradicts the others, and why."""
    match record:
        case Environment() if not is_name(record.environment_id):
            yield "driver, torch, triton: make an environment id that is no name of a folder"
        case Measurement():
            yield from _measurement_contradictions(record)
        case Calibration():
            for name, constant in record.constants.items():
                if not _is_within(constant.ci95_low, constant.value, constant.ci95_high):
                    yield f"constants.{name}: lies outside of its own interval"
                if constant.value == 0:
                    if "/s" in constant.unit or constant.unit in ("Hz", "W"):
                        yield f"constants.{name}: is 0 {constant.unit}; rates are above 0"
                elif not _LEAST_CONSTANT <= abs(constant.value) <= 1 / _LEAST_CONSTANT:
                    yield f"constants.{name}: {constant.value:g} is no constant of a device"
        case Prediction() if record.low_s is not None and record.high_s is not None:
            if not _is_within(record.low_s, record.total_s, record.high_s):
                yield "total_s: lies outside of its own interval"


def _is_within(low: float, value: float, high: float) -> bool:
    """Whether a value lies in its interval, up to rounding in the last digits."""
    slack = _ROUNDING * abs(value)
    return low - slack <= value <= high + slack


def _measurement_contradictions(row: Measurement) -> Iterator[str]:
    samples, telemetry = len(row.latency_samples_s), row.telemetry
    readings = {len(getattr(telemetry, name)) for name in telemetry.__slots__}
    if len(readings) > 1:
        yield f"telemetry: its lists are of different lengths {sorted(readings)}"
    if any(index > samples for index in telemetry.sample_index):
        yield f"telemetry.sample_index: points behind the {samples} samples"
    if row.warmup_samples > samples:
        yield f"warmup_samples: is {row.warmup_samples}, of {samples} samples"
    starts = row.slice_starts
    if list(starts) != sorted(set(starts)) or (starts and starts[-1] >= samples):
        yield f"slice_starts: does not rise within the {samples} samples"
    if row.unsettled_samples and len(row.unsettled_samples) != len(starts):
        yield f"unsettled_samples: has {len(row.unsettled_samples)} of {len(starts)} turns"
    firsts = [visit.first_sample for visit in row.visits]
    if firsts and (firsts != sorted(set(firsts)) or firsts[0] != 0 or firsts[-1] >= samples):
        yield f"visits: their first samples do not rise from 0 within the {samples} samples"
    for visit, end in zip(row.visits, [*firsts[1:], samples][: len(firsts)], strict=True):
        if visit.first_sample + visit.warmup_samples > end:
            yield f"visits: one warms up for more samples than it has, {visit.warmup_samples}"
    if row.fastest_rank_s and len(row.fastest_rank_s) != samples:
        yield f"fastest_rank_s: has {len(row.fastest_rank_s)} samples instead of {samples}"
