"""The process that touches the device: reads groups of points, writes measurements.

It reads its set-up, one JSON line, before which it imports and leaves the device alone: another
session may be measuring there. Then it reads a line per group. It writes lines to a pipe of its
own: {"ready": true} once,
{"at": point_id} before anything that may crash or hang, {"measurement": ...} per point,
{"done": true, "compiled_s": seconds} per group, {"fatal": reason, "status": ...} before it gives
up. When this process dies, the last "at" tells the supervisor which point did it; when the
supervisor dies, however it dies, Linux kills this process, so that no hung kernel keeps the device
and its lock.

For a point on several devices every rank is such a process, see roofcal.measure.workers. All
read the same lines, rank 0 reports the measurements, and each writes {"trouble": reason} when a
step of its own failed (null when all ranks know of it).
"""

import faulthandler
import gc
import json
import math
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import IO, Any

import torch

from roofcal.core.jsonl import decode, encode
from roofcal.core.machine.cores import give_freed_memory_back, keep_freed_memory
from roofcal.core.machine.nvml import Sensor
from roofcal.core.records import Measurement, PlanPoint, Status
from roofcal.core.timing_protocol import Timing
from roofcal.measure.contender import (
    CheckedPoint,
    Contender,
    IncorrectError,
    data_seed,
    prepare,
)
from roofcal.measure.failures import is_broken, reason_of, status_of
from roofcal.measure.interleave import time_group
from roofcal.measure.ranks import SINGLE_RANK, Ranks, SingleRank
from roofcal.measure.timing import Timer, make_timer
from roofcal.measure.workers import dies_with, hold_kernel_cache
from roofcal.ops.bench import ExactOutputs, load_bench

_CPU_CACHE_BYTES = 64 << 20
_CPU_WARM_S = 0.3
_PAGE_BYTES = 2 << 20  # of a GPU, and the least that its driver allocates


class Worker:
    """Times groups on one device, or as one rank of several; `events` takes its events."""

    def __init__(self, setup: Mapping[str, Any], events: IO[str]) -> None:
        if setup.get("threads"):
            # Snakemake sets OMP_NUM_THREADS to the threads of a job: `--cores 1` would otherwise
            # measure one thread under the name of an environment with more.
            torch.set_num_threads(max(1, setup["threads"] // setup.get("world_size", 1)))
        self._device = torch.device(setup["torch_device"])
        if self._device.type == "cpu":
            keep_freed_memory()
        self._timing = Timing.model_validate(setup["timing"])
        self._seed: int = setup["seed"]
        self._ids = {key: setup[key] for key in ("environment_id", "session_id")}
        self._epoch: float = setup["epoch"]
        self._events = events
        self._compiled_s = 0.0
        self._sensor = Sensor(setup["uuid"])
        self._cache_bytes: int = setup["cache_bytes"] or _CPU_CACHE_BYTES
        if self._device.type == "cuda":
            properties = torch.cuda.get_device_properties(self._device)
            self._cache_bytes = properties.L2_cache_size
            self._count_compiling()
        self._pads = random.Random(setup["session_id"])
        self._checked: dict[str, CheckedPoint] = {}  # by point id
        self._exact = ExactOutputs()
        self._team: SingleRank = SINGLE_RANK
        if setup.get("world_size", 1) > 1:
            self._team = Ranks(setup, self._device, self._send_event)

    def run(self, lines: IO[str]) -> None:
        """Warm the card, then time one group per line until the input ends."""
        self._warm_card()
        self._send_event(ready=True)
        with _no_garbage_collected():
            for line in lines:
                points = [decode(text) for text in json.loads(line)]
                try:
                    self.run_group([point for point in points if isinstance(point, PlanPoint)])
                except Exception as error:
                    self._send_event(
                        fatal=reason_of(error), status=status_of(error), now_s=time.monotonic()
                    )
                    raise
                self._send_event(done=True, compiled_s=self._compiled_s)
                self._compiled_s = 0.0
                gc.freeze()  # what compiling left is looked through once, not after every group

    def _count_compiling(self) -> None:
        """Count the seconds in which Triton compiles here, instead of finding a kernel compiled.

        Each such kernel is named in the log of the session: on an H100 they took 7 % of a
        study, and nothing said which ones the compilers ahead had missed.
        """
        from triton import knobs  # noqa: PLC0415 (a CPU is measured without Triton)

        def count(*, src: Any, times: Any, cache_hit: bool, **_: Any) -> None:
            if not cache_hit:
                seconds = times.total * 1e-6
                self._compiled_s += seconds
                sys.stderr.write(f"not compiled ahead: {src.name}, {seconds:.1f} s\n")

        knobs.compilation.listener = count

    def _warm_card(self) -> None:
        """Matrix products until the card is at working temperature: cool cards boost for longer.

        That is for `warm_card_s`, or until a GPU gets no warmer: one that measured another op a
        moment ago is warm after three seconds. On a Xeon that had rested for two seconds, products
        of the first tenth of a second took as long as those of the next two seconds.
        """
        # A CPU takes 0.2 s for one of bf16: 50 of them kept a study waiting for 11 s per op.
        side, products = (4096, 50) if self._device.type == "cuda" else (512, 1)
        most_s = self._timing.warm_card_s
        if self._device.type == "cpu":
            most_s = min(most_s, _CPU_WARM_S)
        a = torch.randn(side, side, device=self._device, dtype=torch.bfloat16)
        temperatures: list[float] = []
        second = start = time.perf_counter()
        while (now := time.perf_counter()) - start < most_s:
            for _ in range(products):
                torch.mm(a, a)
            if self._device.type == "cuda":
                torch.cuda.synchronize()
            if now - second >= 1:
                second = now
                if (reading := self._sensor.read()) is not None:
                    temperatures.append(reading[3])
                if len(temperatures) > 2 and temperatures[-1] <= temperatures[-3]:
                    return

    def run_group(self, points: Sequence[PlanPoint]) -> None:
        """Prepare every contender, time them in turns, report each of them.

        Contenders that find no memory beside the others are timed alone, after them.
        """
        for point in self._run_together(points):
            self._free()
            self._run_together([point])
        self._free()

    def _run_together(self, points: Sequence[PlanPoint]) -> list[PlanPoint]:
        """Time and report the points; returns those that found no memory beside the others."""
        start = time.perf_counter()
        pad = self._pad()
        turns: list[tuple[Contender, Timer]] = []
        crowded: list[PlanPoint] = []

        def tell(contender: Contender) -> None:
            self._send_event(at=contender.point.point_id)

        for point in points:
            if turn := self._ready(point, crowded if turns else None):
                turns.append(turn)
        if turns:
            self._exact.forget()  # points without times keep it: those of equal data follow
            seed = data_seed(turns[0][0].point, self._seed)
            time_group(turns, self._timing, self._sensor, seed, tell, self._team)
        for contender, _ in turns:
            self._report(contender, start)
        del pad
        return crowded

    def _pad(self) -> torch.Tensor:
        """Memory of a random size that is held during a visit.

        Without it the driver of a GPU, or the kernel of a CPU, gives the buffers of the next visit
        the pages of the last one, and a state that a point owes to its pages would look like the
        point's own time.
        """
        cuda = self._device.type == "cuda"
        most = torch.cuda.mem_get_info(self._device)[0] // 256 if cuda else _CPU_CACHE_BYTES
        pages = self._pads.randint(1, max(1, most // _PAGE_BYTES))
        pad = torch.empty(pages * _PAGE_BYTES, dtype=torch.uint8, device=self._device)
        return pad if cuda else pad.zero_()  # memory of a CPU has no pages until it is written

    def _free(self) -> None:
        """Give memory back, the private pools of graphs included, once nothing refers to it."""
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        else:
            give_freed_memory_back()

    def _ready(
        self, point: PlanPoint, crowded: list[PlanPoint] | None
    ) -> tuple[Contender, Timer] | None:
        """The contender and its timer; None where it failed or is not timed, after its report.

        crowded: where others hold memory, a point that finds too little is added here instead.
        """
        self._send_event(at=point.point_id)
        start = time.perf_counter()
        try:
            earlier = (self._checked.get(point.point_id), self._exact)
            contender = prepare(
                point, self._device, self._seed, self._cache_bytes, self._team, earlier
            )
            if self._team.world_size == 1:  # calls of several ranks hold buffers that they share
                self._checked[point.point_id] = contender.checked
            if point.protocol.method == "accuracy":
                self._report(contender, start)
                return None
            sample_s, flush = self._timing.sample_s, 4 * self._cache_bytes
            with self._team.failing_together():
                return contender, make_timer(contender, self._device, sample_s, flush, self._team)
        except IncorrectError as wrong:
            self._fail(point, "incorrect", str(wrong), start, wrong.relative_error)
        except Exception as error:  # noqa: BLE001 (any failure of a provider is a row, not an end)
            status = status_of(error)
            self._exact.forget()
            if status == "out_of_memory" and crowded is not None and not is_broken(error):
                crowded.append(point)
            else:
                self._fail(point, status, reason_of(error), start)
                if is_broken(error):  # its context of CUDA is lost: the session starts a new worker
                    os._exit(3)
        return None

    def _fail(
        self, point: PlanPoint, status: Status, reason: str, start: float, error: float = math.nan
    ) -> None:
        known = error if math.isfinite(error) else None  # JSON knows no NaN
        self._send_row(point, start, status=status, reason=reason, relative_error=known)

    def _report(self, contender: Contender, start: float) -> None:
        own = contender.counted(contender.own_samples) if contender.own_samples else []
        self._send_row(
            contender.point,
            start,
            status="ok",
            latency_samples_s=_rounded(contender.samples),
            warmup_samples=contender.warmup_samples,
            slice_starts=tuple(contender.slice_starts),
            unsettled_samples=tuple(contender.unsettled) if any(contender.unsettled) else (),
            calls_per_sample=contender.calls_per_sample,
            rotating_copies=len(contender.copies),
            rotating_bytes=len(contender.copies) * contender.bytes_per_copy,
            peak_bytes=contender.peak_bytes,
            relative_error=contender.relative_error,
            quantisation_error=contender.quantisation_error,
            output_errors=contender.output_errors,
            telemetry=contender.recorder.telemetry(),
            kernel_names=contender.kernel_names,
            fastest_rank_s=_rounded(contender.fastest_samples),
            energy_windows=tuple(contender.energy_windows),
            rank_medians_s=_rounded(self._team.all_gather(median(own))) if own else (),
        )

    def _send_row(self, point: PlanPoint, start: float, **found: Any) -> None:
        """Report a point that was begun at `start`; of several ranks the first one does."""
        if self._team.rank:
            return
        elapsed_s = time.perf_counter() - start
        started_s = time.time() - self._epoch - elapsed_s
        found |= {"point_id": point.point_id, "started_s": started_s, "elapsed_s": elapsed_s}
        self._send_event(measurement=encode(Measurement(**self._ids, **found)))

    def _send_event(self, **event: Any) -> None:
        self._events.write(json.dumps(event) + "\n")
        self._events.flush()


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Within it Python looks for garbage when it is asked to, and not in what was there before.

    A graph of a group before that is collected while a graph is captured ends the capture, and the
    context with it (github.com/pytorch/pytorch/pull/161037): 14 of 2200 visits of an H200 failed
    so, and each cost the 8 s of a new process. Tensors that are freed while a call's peak of memory
    is taken made it negative. And looking through the 390,000 objects of torch takes 0.6 s.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _rounded(seconds: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{s:.5g}") for s in seconds)


def main() -> None:
    """Entry of the process: argv[1] names supervisor and op as JSON, argv[2] the pipe of events.

    What measuring the op needs is imported at once; torch.compile only while the device is not free
    anyway.
    """
    start = json.loads(sys.argv[1])
    if not dies_with(start["supervisor_pid"]):
        sys.exit("the supervisor of this worker is gone")
    hold_kernel_cache()
    with os.fdopen(int(sys.argv[2]), "w") as events:
        with suppress(Exception):  # a bench that cannot be imported fails each of its points
            load_bench(start["op"])
        has_device = select.select([sys.stdin], [], [], 0)[0]
        if not has_device:
            import_module("torch._inductor.compile_fx")  # 2 to 4 s, else in the first compiled one
        if not (line := sys.stdin.readline()):
            return  # the session ends before the device is free
        setup = json.loads(line)
        if "stack" not in setup:
            Worker(setup, events).run(sys.stdin)
            return
        # One of several ranks: it writes its stack on SIGUSR1, and reports why it does not start.
        with Path(setup["stack"]).open("w") as stack:
            faulthandler.register(signal.SIGUSR1, file=stack)
            try:
                worker = Worker(setup, events)
            except Exception as error:
                fatal = {"fatal": reason_of(error), "status": status_of(error)}
                events.write(json.dumps(fatal | {"now_s": time.monotonic()}) + "\n")
                raise
            worker.run(sys.stdin)


if __name__ == "__main__":
    main()
