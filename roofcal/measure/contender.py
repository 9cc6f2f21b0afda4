"""A point of a plan, ready to be timed: its inputs in rotating copies, its check, its samples."""

import hashlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from roofcal.core.machine.nvml import Reading, Sensor
from roofcal.core.records import EnergyWindow, PlanPoint, Telemetry, canonical_json
from roofcal.measure.ranks import SINGLE_RANK, SingleRank
from roofcal.ops.bench import (
    ExactOutputs,
    Inputs,
    arranged_inputs,
    largest_error,
    load_bench,
    quantisation_error,
    relative_errors,
    worst,
)

_MOST_COPIES = 512


@dataclass(slots=True)
class Recorder:
    """Readings of one GPU beside the samples of one contender; records nothing on a CPU."""

    sample_index: list[int] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    def record(self, sensor: Sensor, sample_index: int) -> None:
        """Take one reading now, while the card works, beside the sample of that index."""
        reading = sensor.read()
        if reading is not None:
            self.sample_index.append(sample_index)
            self.readings.append(reading)

    def telemetry(self) -> Telemetry:
        """The readings as a record."""
        if not self.readings:
            return Telemetry()
        sm, memory, power, temperature, reasons = zip(*self.readings, strict=True)
        return Telemetry(
            sample_index=tuple(self.sample_index),
            sm_clock_hz=sm,
            memory_clock_hz=memory,
            power_w=power,
            temperature_c=temperature,
            throttle_reasons=reasons,
        )


class IncorrectError(Exception):
    """An output is further from the reference than the op tolerates."""

    def __init__(self, relative_error: float, tolerance: float) -> None:
        super().__init__(f"relative error {relative_error:.3g} exceeds {tolerance:.3g}")
        self.relative_error = relative_error


@dataclass(slots=True, kw_only=True)
class CheckedPoint:
    """What the first visit of a point shows, and later visits of one process take over.

    Their data are equal to the bit and so is the code, so that a second check would find the same:
    it took 0.2 to 0.7 s of each later visit of products of 16384 and 32768 and of linears on an
    H200, and tracing a compiled call anew took 0.1 to 0.5 s. Memory is allocated anew.
    """

    call: Callable[[Inputs], Any]
    bytes_per_copy: int
    relative_error: float
    quantisation_error: float | None
    output_errors: Mapping[str, float] | None = None


@dataclass(slots=True, kw_only=True)
class Contender(CheckedPoint):
    """What timing needs of a point, and what it collects.

    copies   sets of inputs at different addresses
    samples, fastest_samples, own_samples
             seconds per call; on several devices those of the slowest, the fastest and this rank
    peak_bytes
             most device memory that one call held beyond its inputs, see Measurement
    slice_starts, unsettled
             of each turn, the index of its first sample, and how many at its start do not count
    """

    point: PlanPoint
    copies: list[Inputs]
    kernel_names: tuple[str, ...] = ()
    calls_per_sample: int = 1
    peak_bytes: int | None = None
    samples: list[float] = field(default_factory=list)
    fastest_samples: list[float] = field(default_factory=list)
    own_samples: list[float] = field(default_factory=list)
    warmup_samples: int = 0
    slice_starts: list[int] = field(default_factory=list)
    unsettled: list[int] = field(default_factory=list)
    recorder: Recorder = field(default_factory=Recorder)
    energy_windows: list[EnergyWindow] = field(default_factory=list)

    @property
    def checked(self) -> CheckedPoint:
        """What the next visit of its point need not find out again, without the copies."""
        return CheckedPoint(**{name: getattr(self, name) for name in CheckedPoint.__slots__})

    @property
    def settled_rounds(self) -> int:
        """Turns taken since the clock settled."""
        return sum(start >= self.warmup_samples for start in self.slice_starts)

    @property
    def settled(self) -> list[float]:
        """Samples that count: since the clock settled, and since it did so in their turn."""
        return self.counted(self.samples)

    def counted(self, samples: Sequence[float]) -> list[float]:
        """Those that count of `samples`, which lie beside `self.samples`."""
        ends = [*self.slice_starts[1:], len(samples)]
        turns = zip(self.slice_starts, self.unsettled, ends, strict=True)
        return [
            sample
            for start, skipped, end in turns
            if start >= self.warmup_samples
            for sample in samples[start + skipped : end]
        ]


def prepare(
    point: PlanPoint,
    device: torch.device,
    seed: int,
    cache_bytes: int,
    team: SingleRank = SINGLE_RANK,
    earlier: tuple[CheckedPoint | None, ExactOutputs] | None = None,
) -> Contender:
    """The contender of a point: inputs are made, its output is checked, inputs are copied.

    Args:
        point: what to measure.
        device: where to run it.
        seed: of the study; equal seeds give equal data.
        cache_bytes: size of the last-level cache, see copy_count.
        team: the ranks that share the point. Each has data of its own; the largest error counts.
        earlier: what an earlier visit of the same point by this process showed, and what outputs
            of contenders with the same data are compared with, which is kept there.

    Raises:
        Unsupported: the provider refuses the point.
        IncorrectError: the output is too far from the reference.
        RankError: some ranks failed and others did not.
        Exception: what a provider raises, torch.OutOfMemoryError among it.
    """
    checked, exact = earlier or (None, ExactOutputs())
    bench = load_bench(point.op)
    is_timed = point.protocol.method != "accuracy"
    distribution = point.protocol.distribution

    def drawn(recipe: str, rank: int) -> Inputs:
        generator = torch.Generator(device=device).manual_seed(data_seed(point, seed) + rank)
        return bench.make_inputs(recipe, point.shape, generator, distribution)

    with team.failing_together():
        inputs = drawn(point.recipe, team.rank)
        call = checked.call if checked else bench.build(point.provider, point.recipe, point.shape)
        own = arranged_inputs(bench, point.provider, point.recipe, inputs)
    if checked is None:
        # Compiling costs seconds per point; a call for its errors alone runs eagerly, and computes
        # the same.
        stance = nullcontext() if is_timed else torch.compiler.set_stance("force_eager")
        with team.failing_together(), stance:
            output = call(own)
            key = (point.op, tuple(sorted(point.shape.items())), distribution)
            error, by_output = relative_errors(bench, point.recipe, inputs, output, exact, key)
        error = worst(*team.all_gather(error))
        # Method `accuracy` measures the error: every error that is a number is a result.
        allowed = sys.float_info.max
        if is_timed:
            allowed = largest_error(bench, point.provider, point.recipe)
        if not error <= allowed:  # true for NaN too
            raise IncorrectError(error, allowed)
        with team.failing_together():
            # Of the operands before they were quantised: those of the contender in bf16.
            rounded = quantisation_error(
                point.op, bench, point.recipe, inputs, lambda: drawn("bf16", 0)
            )
        checked = CheckedPoint(
            call=call,
            bytes_per_copy=distinct_bytes([own, output]),
            relative_error=error,
            quantisation_error=rounded,
            output_errors=by_output,
        )
        del output
    del inputs
    is_cold = is_timed and point.protocol.cache == "cold"
    count = copy_count(checked.bytes_per_copy, cache_bytes) if is_cold else 1
    copies: list[Inputs] = [own]
    with team.failing_together():
        copies += ({name: x.clone() for name, x in own.items()} for _ in range(count - 1))
    values = {name: getattr(checked, name) for name in CheckedPoint.__slots__}
    return Contender(point=point, copies=copies, **values)


def copy_count(bytes_per_copy: int, cache_bytes: int) -> int:
    """How many copies of the inputs and outputs rotate.

    Enough to exceed 2.2 times the cache, at least 2 and at most 512, so that the cache may stay
    warm for very small operands; 1 if one copy exceeds four times the cache.
    """
    if bytes_per_copy > 4 * cache_bytes:
        return 1
    return min(_MOST_COPIES, max(2, math.ceil(2.2 * cache_bytes / max(1, bytes_per_copy))))


def data_seed(point: PlanPoint, seed: int) -> int:
    """Seed of a point's data: equal for all contenders of an op and shape."""
    identity = [seed, point.op.removeprefix("probe_"), dict(point.shape)]
    return int.from_bytes(hashlib.sha256(canonical_json(identity)).digest()[:6])


def distinct_bytes(value: Any) -> int:
    """Bytes of all tensors in a nest of containers; an output that is an input counts once."""
    nest, bytes_at = [value], dict[int, int]()
    while nest:
        match nest.pop():
            case torch.Tensor() as tensor:
                storage = tensor.untyped_storage()
                bytes_at[storage.data_ptr()] = storage.nbytes()
            case Mapping() as mapping:
                nest += mapping.values()
            case tuple() | list() as items:
                nest += items
    return sum(bytes_at.values())
