"""The records every stage reads and writes; roofcal.core.jsonl has their files.

Records hold what was observed; medians, rates and errors are functions of records, so a better
statistic never needs the GPU again. Quantities are in SI units, named by suffix.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from pydantic import ConfigDict, with_config

Method = Literal["graph", "events_flush", "profiler", "wall", "accuracy"]
CacheState = Literal["cold", "hot"]
Distribution = Literal["normal", "outlier_channels", "heavy_tails", "all_positive", "zeros"]
Status = Literal["ok", "unsupported", "incorrect", "out_of_memory", "timeout", "failed"]
_STRICT: Final = ConfigDict(extra="forbid")


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no white space."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@with_config(_STRICT)
@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a point is timed: part of its identity, because it changes the number.

    method        graph: replay of a CUDA graph over rotating copies (on a CPU: a timed loop);
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
