"""The process that touches the device: reads groups of points, writes measurements.

One JSON line in is one group; lines out on a pipe of its own: {"ready": true} once,
{"at": point_id} before anything that may crash or hang, {"measurement": ...} per point,
{"done": true} per group, {"fatal": reason, "status": ...} before it gives up. When this process
dies, the supervisor knows from the last "at" which point did it; when the supervisor dies, however
it dies, Linux kills this process, so that no hung kernel keeps the device and its lock.
"""

import ctypes
import json
import math
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import torch

from roofcal.measure.contender import Contender, IncorrectError, data_seed, prepare
from roofcal.measure.interleave import time_group
from roofcal.measure.telemetry import Sensor
from roofcal.measure.timing import Timer, make_timer
from roofcal.ops.spec import Unsupported
from roofcal.records import Measurement, PlanPoint, Status, decode, encode
from roofcal.schema import Timing

_CPU_CACHE_BYTES = 64 << 20
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# How torch, CUDA, cuBLAS and the CPU allocator word it, lower case
_NO_MEMORY = ("can't allocate memory", "cuda error: out of memory", "cublas_status_alloc_failed")
_REFUSALS = ("not implemented", "cublas_status_not_supported")


class Worker:
    """Times groups on one device; `report` receives the events."""

    def __init__(self, setup: Mapping[str, Any], events: IO[str]) -> None:
        if setup.get("threads"):
            # Snakemake sets OMP_NUM_THREADS to the threads of a job: `--cores 1` would otherwise
            # measure one thread under the name of an environment with more.
            torch.set_num_threads(setup["threads"])
        self._device = torch.device(setup["torch_device"])
        self._timing = Timing.model_validate(setup["timing"])
        self._seed: int = setup["seed"]
        self._ids = {key: setup[key] for key in ("environment_id", "session_id")}
        self._epoch: float = setup["epoch"]
        self._events = events
        self._sensor = Sensor(setup["uuid"])
        self._cache_bytes = self._last_level_cache(setup["cache_bytes"])

    def _last_level_cache(self, known: int | None) -> int:
        if self._device.type == "cuda":
            return int(torch.cuda.get_device_properties(self._device).L2_cache_size)
        return known or _CPU_CACHE_BYTES

    def run(self, lines: IO[str]) -> None:
        """Warm the card, then time one group per line until the input ends."""
        self._warm_card()
        self._say(ready=True)
        for line in lines:
            points = [decode(text) for text in json.loads(line)]
            try:
                self.run_group([point for point in points if isinstance(point, PlanPoint)])
            except Exception as error:
                self._say(fatal=_first_line(error), status=status_of(error))
                raise
            self._say(done=True)

    def _warm_card(self) -> None:
        """Matrix products until the card is at working temperature: cool cards boost for longer."""
        side = 4096 if self._device.type == "cuda" else 512
        a = torch.randn(side, side, device=self._device, dtype=torch.bfloat16)
        end = time.perf_counter() + self._timing.warm_card_s
        while time.perf_counter() < end:
            for _ in range(50):
                torch.mm(a, a)
            if self._device.type == "cuda":
                torch.cuda.synchronize()

    def run_group(self, points: Sequence[PlanPoint]) -> None:
        """Prepare every contender, time them in turns, report each; none is ever left out.

        Contenders that find no memory beside the others are timed alone, after them.
        """
        for point in self._run_together(points):
            self._free()
            self._run_together([point])
        self._free()

    def _run_together(self, points: Sequence[PlanPoint]) -> list[PlanPoint]:
        """Time and report the points; returns those that found no memory beside the others."""
        start = time.perf_counter()
        turns: list[tuple[Contender, Timer]] = []
        crowded: list[PlanPoint] = []
        for point in points:
            turn = self._ready(point, crowded if turns else None)
            turns += [turn] if turn else []
        if turns:
            self._time(turns)
        for contender, _ in turns:
            self._report(contender, start)
        return crowded

    def _free(self) -> None:
        """Give memory back, the private pools of graphs included, once nothing refers to it."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _time(self, turns: list[tuple[Contender, Timer]]) -> None:
        seed = data_seed(turns[0][0].point, self._seed)

        def tell(contender: Contender) -> None:
            self._say(at=contender.point.point_id)

        time_group(turns, self._timing, self._sensor, seed, tell)

    def _ready(
        self, point: PlanPoint, crowded: list[PlanPoint] | None
    ) -> tuple[Contender, Timer] | None:
        """The contender and its timer, or None after it was reported: it failed, or is not timed.

        crowded: where others hold memory, takes the point if there is too little left for it.
        """
        self._say(at=point.point_id)
        start = time.perf_counter()
        try:
            contender = prepare(point, self._device, self._seed, self._cache_bytes)
            if point.protocol.method == "accuracy":
                self._report(contender, start)
                return None
            flush = 4 * self._cache_bytes
            return contender, make_timer(contender, self._device, self._timing.sample_s, flush)
        except Unsupported as refusal:
            self._fail(point, "unsupported", str(refusal), start)
        except IncorrectError as wrong:
            self._fail(point, "incorrect", str(wrong), start, wrong.relative_error)
        except Exception as error:  # noqa: BLE001 (any failure of a provider is a row, not an end)
            status = status_of(error)
            if status == "out_of_memory" and crowded is not None and not _is_broken(error):
                crowded.append(point)
            else:
                self._fail(point, status, _first_line(error), start)
                self._stop_if_broken(error)
        return None

    def _stop_if_broken(self, error: Exception) -> None:
        """After a CUDA error the context is lost: leave, and let the session start a new worker."""
        if _is_broken(error):
            os._exit(3)

    def _fail(
        self,
        point: PlanPoint,
        status: Status,
        reason: str,
        start: float,
        error: float = math.nan,
    ) -> None:
        self._send(
            Measurement(
                point_id=point.point_id,
                status=status,
                reason=reason,
                relative_error=error if math.isfinite(error) else None,  # JSON knows no NaN
                started_s=time.time() - self._epoch,
                elapsed_s=time.perf_counter() - start,
                **self._ids,
            )
        )

    def _report(self, contender: Contender, start: float) -> None:
        elapsed = time.perf_counter() - start
        self._send(
            Measurement(
                point_id=contender.point.point_id,
                status="ok",
                latency_samples_s=tuple(float(f"{s:.5g}") for s in contender.samples),
                warmup_samples=contender.warmup_samples,
                slice_starts=tuple(contender.slice_starts),
                calls_per_sample=contender.calls_per_sample,
                rotating_copies=len(contender.copies),
                rotating_bytes=len(contender.copies) * contender.bytes_per_copy,
                relative_error=contender.relative_error,
                quantisation_error=contender.quantisation_error,
                output_errors=contender.output_errors,
                telemetry=contender.recorder.telemetry(),
                kernel_names=contender.kernel_names,
                started_s=time.time() - self._epoch - elapsed,
                elapsed_s=elapsed,
                **self._ids,
            )
        )

    def _send(self, measurement: Measurement) -> None:
        self._say(measurement=encode(measurement))

    def _say(self, **event: Any) -> None:
        self._events.write(json.dumps(event) + "\n")
        self._events.flush()


def status_of(error: BaseException | None) -> Status:
    """The status that an exception of a provider stands for.

    cuBLAS and oneDNN refuse what they lack with NotImplementedError or a RuntimeError that says so.
    Running out of memory while a graph is captured comes out as the error of the broken capture,
    with the real one as its context.
    """
    kinds = [_kind(link) for link in _chain(error)]
    return next((kind for kind in kinds if kind == "out_of_memory"), kinds[0])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _kind(error: BaseException) -> Status:
    text = str(error).lower()
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or any(
        m in text for m in _NO_MEMORY
    ):
        return "out_of_memory"
    if isinstance(error, NotImplementedError) or any(m in text for m in _REFUSALS):
        return "unsupported"
    return "failed"


def _is_broken(error: BaseException) -> bool:
    """Whether the CUDA context is lost with this error."""
    return isinstance(error, torch.AcceleratorError)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"[:500]


def main() -> None:
    """Entry of the process: argv[1] is the set-up as JSON, argv[2] the descriptor of the pipe."""
    setup = json.loads(sys.argv[1])
    _die_with(setup["supervisor_pid"])
    with os.fdopen(int(sys.argv[2]), "w") as events:
        Worker(setup, events).run(sys.stdin)


def _die_with(supervisor: int) -> None:
    """Have Linux kill this process when its parent ends; elsewhere a closed pipe has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        sys.exit("the supervisor of this worker is gone")


if __name__ == "__main__":
    main()
