"""Made-up runs with a truth that the tests know: times, errors of predictions, what is too fast.

Every time is exactly the median of its samples, so a test can compare with ==.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.records import (
    Calibration,
    Ceiling,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Protocol,
    Session,
    Telemetry,
)
from roofcal.core.visits.rows import merged_visits
from roofcal.ops import BY_NAME
from roofcal.ops.constants import current_equations
from roofcal.ops.regimes import gemm_regime
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse

GPU = Environment(
    device="nvidia-h200",
    vendor="nvidia",
    device_name="NVIDIA H200",
    compute_units=132,
    memory_clock_hz=3.201e9,
    memory_bus_bits=6016,
    memory_bytes=150 * 10**9,
    power_limit_w=700.0,
    ecc=True,
    mig=False,
    driver="580.1",
    cuda="13.0",
    torch="2.11.0",
    triton="3.6.0",
    python="3.12.3",
)
CPU = Environment(
    device="cpu-made-up",
    vendor="cpu",
    device_name="Made-up <CPU> & co",
    compute_units=2,
    last_level_cache_bytes=32 << 20,
    torch="2.11.0+cpu",
    python="3.12.3",
    threads=2,
)

RATE = {
    "bf16": 600e12,
    "fp8_tensorwise": 1200e12,
    "fp8_tensorwise_slow_accum": 1100e12,
    "fp8_axiswise": 1000e12,
    "fp8_axiswise_slow_accum": 900e12,
    "fp32": 50e12,
    "int8": 1000e12,
}
LAUNCH_S = 4e-6
COPY = 4e12
# Predicted over true time, minus 1, of the calibrated model; torchao is 30 % too fast everywhere.
MODEL_ERROR = {
    "decode": 0.10,
    "small": -0.08,
    "mid": -0.02,
    "large": 0.04,
    "skinny_k": 0.06,
    "ragged": 0.0,
}
TORCHAO_ERROR = -0.3
DRIFT = 0.01  # the last sentinel over the first, minus 1


def product(m: int, n: int, k: int, recipe: str = "bf16", **changes: Any) -> PlanPoint:
    shape = {"m": m, "n": n, "k": k}
    defaults = {"op": "gemm", "provider": "cublaslt", "device": GPU.device, "sweeps": ("made_up",)}
    return PlanPoint(recipe=recipe, shape=shape, **defaults | changes)


def stream(size: int, recipe: str = "copy", cache: str = "cold", **changes: Any) -> PlanPoint:
    defaults = {
        "op": "probe_copy",
        "provider": "triton",
        "device": GPU.device,
        "sweeps": ("sizes",),
    }
    protocol = Protocol(cache="hot" if cache == "hot" else "cold")
    return PlanPoint(
        recipe=recipe, shape={"size_bytes": size}, protocol=protocol, **defaults | changes
    )


def cast(rows: int, cols: int, recipe: str, provider: str = "torch_compile") -> PlanPoint:
    shape = {"rows": rows, "cols": cols}
    return PlanPoint(
        op="cast", provider=provider, recipe=recipe, shape=shape, device=GPU.device, sweeps=("x",)
    )


def launch(grid: int, method: str = "graph") -> PlanPoint:
    protocol = Protocol(method="wall" if method == "wall" else "graph", cache="hot")
    return PlanPoint(
        op="probe_launch",
        provider="triton",
        recipe="empty",
        shape={"grid": grid},
        device=GPU.device,
        protocol=protocol,
    )


def true_seconds(point: PlanPoint) -> float:
    """The time of a point in the made-up world."""
    work = BY_NAME[point.op].work(point.recipe, point.shape)
    rate = RATE.get(point.recipe, 1e12)
    seconds = LAUNCH_S + max(work.flops / rate, work.dram_bytes / COPY)
    factors = {"wall": 3.0, "events_flush": 1.5, "profiler": 1.2, "graph": 1.0}
    factor = factors[point.protocol.method]
    if point.protocol.distribution == "zeros":
        factor *= 0.9
    return seconds * factor


def samples_around(seconds: float, count: int = 21, spread: float = 0.002) -> tuple[float, ...]:
    """An odd number of samples whose median is exactly `seconds`, not in order of size."""
    half = count // 2
    steps = [(index * 8) % count - half for index in range(count)]
    return tuple(seconds * (1 + spread * step / half) for step in steps)


@dataclass
class MadeUpRun:
    """Collects points with their outcomes, then writes the run folder."""

    environment: Environment = GPU
    points: dict[str, list[PlanPoint]] = field(default_factory=dict)
    rows: dict[str, list[Measurement]] = field(default_factory=dict)
    predictions: dict[str, list[Prediction]] = field(default_factory=dict)
    constants: dict[str, Ceiling] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def plan(self, *points: PlanPoint) -> None:
        """Points that are planned and never reached."""
        for point in points:
            self.points.setdefault(point.op, []).append(point)

    def measure(self, point: PlanPoint, seconds: float | None = None, **changes: Any) -> None:
        """A point with a time: `seconds`, or the true one."""
        time = true_seconds(point) if seconds is None else seconds
        burst = changes.pop("burst_s", 0.9 * time)
        settled = changes.pop("samples", samples_around(time))
        defaults = {
            "latency_samples_s": (*(burst,) * 4, *(time,) * 3, *settled),
            "warmup_samples": 7,
            "slice_starts": (0, 4, 7),
            "rotating_bytes": 200 << 20,
            "relative_error": 0.002,
            "telemetry": telemetry(1.4e9, 690.0, ("power_cap",)),
            "kernel_names": ("nvjet_a", "nvjet_a", "reduce"),
        }
        fields = defaults | changes
        if not fields["latency_samples_s"]:  # a point of accuracy has neither turns nor readings
            fields |= {"warmup_samples": 0, "slice_starts": (), "telemetry": Telemetry()}
        self._add(point, "ok", None, fields)

    def visit(self, point: PlanPoint, *seconds: float, **changes: Any) -> None:
        """A point that is visited twice or more: the time of each visit."""
        rows, count = self.rows.setdefault(point.op, []), len(seconds)
        for time in seconds:
            self.measure(point, time, **changes)
        visits = [replace(row, visit=number) for number, row in enumerate(rows[-count:])]
        rows[-count:] = [merged_visits(visits)]
        del self.points[point.op][1 - count :]

    def fail(self, point: PlanPoint, status: Any, reason: str | None, **changes: Any) -> None:
        """A point with any status."""
        self._add(point, status, reason, changes)

    def _add(
        self, point: PlanPoint, status: Any, reason: str | None, changes: dict[str, Any]
    ) -> None:
        self.plan(point)
        rows = self.rows.setdefault(point.op, [])
        defaults: dict[str, Any] = {"started_s": 2.0 * len(rows), "elapsed_s": 1.0}
        defaults |= {"session_id": f"session-{point.op}", "status": status, "reason": reason}
        row = Measurement(
            point_id=point.point_id,
            environment_id=self.environment.environment_id,
            **defaults | changes,
        )
        rows.append(row)

    def predict(self, point: PlanPoint, model: str, seconds: float, **changes: Any) -> None:
        """What a model says of a point."""
        defaults = {"math_s": None, "dram_s": None, "link_s": None, "launch_s": None}
        prediction = Prediction(
            point_id=point.point_id,
            model=model,
            total_s=seconds,
            **defaults | {"bound_by": "tiles"} | changes,
        )
        self.predictions.setdefault(point.op, []).append(prediction)

    def constant(
        self, name: str, value: float, unit: str, width: float = 0.02, evidence: str = "made up"
    ) -> None:
        """A calibrated constant with an interval of +-width."""
        self.constants[name] = Ceiling(
            value=value,
            ci95_low=value * (1 - width),
            ci95_high=value * (1 + width),
            unit=unit,
            evidence=evidence,
        )

    def write(self, root: Path, suffix: str = ".jsonl") -> Path:
        """The run folder below `root`; suffix .jsonl.gz makes it look published."""
        folder = root / self.environment.device / self.environment.environment_id
        write_records(folder / "environment.jsonl", [self.environment])
        for op, points in self.points.items():
            write_records(folder / "plan" / f"{op}{suffix}", points)
            rows: list[Session | Measurement] = [self.session(op), *self.rows.get(op, [])]
            write_records(folder / "measurements" / f"{op}{suffix}", rows)
        for op, predictions in self.predictions.items():
            write_records(folder / "predictions" / f"{op}.jsonl", predictions)
        if self.constants:
            write_records(folder / "calibration.jsonl", [self.calibration()])
        return folder

    def table(self, root: Path, op: str = "gemm") -> pd.DataFrame:
        """The tidy frame of an op, by way of the run folder."""
        return load_run(self.write(root)).points(op).table

    def analysed(self, root: Path, spec: DeviceSpec | None = None) -> Analysis:
        """Its tables, by way of the run folder."""
        return analyse(load_run(self.write(root)), spec)

    def session(self, op: str) -> Session:
        """The one session of an op: 60 s of which 39 s were timed."""
        defaults: dict[str, Any] = {
            "host": "node7",
            "device_uuid": "GPU-1",
            "git_commit": "0123456789abcdef",
            "git_dirty": False,
            "code_hash": "fedcba9876543210",
            "command": f"python -m roofcal measure --plan plan/{op}.jsonl",
            "timing": {"budget_s": 0.4},
            "started_utc": "2026-11-21T04:00:00+00:00",
            "finished_utc": "2026-11-21T04:01:00+00:00",
            "wall_s": 60.0,
            "timed_s": 39.0,
        }
        return Session(
            session_id=f"session-{op}",
            environment_id=self.environment.environment_id,
            op=op,
            **defaults | self.sessions.get(op, {}),
        )

    def calibration(self) -> Calibration:
        """The constants as a record."""
        errors = {"mape": 0.05, "median": 0.04, "p95": 0.12, "log_p95": 0.1, "count": 64.0}
        return Calibration(
            device=self.environment.device,
            environment_id=self.environment.environment_id,
            constants=self.constants,
            probe_errors={"gemm.cublaslt.bf16": errors},
            equations=current_equations(),
            probe_points=64,
        )


def telemetry(clock: float, power: float, reasons: tuple[str, ...] = ()) -> Telemetry:
    """Three readings: a fast one during the warm-up, then two settled ones."""
    return Telemetry(
        sample_index=(0, 7, 14),
        sm_clock_hz=(1.9e9, clock, clock),
        memory_clock_hz=(3.2e9,) * 3,
        power_w=(300.0, power, power),
        temperature_c=(40.0, 55.0, 55.0),
        throttle_reasons=((), reasons, reasons),
    )


def add_constants(run: MadeUpRun, rates: Mapping[str, float] = RATE) -> None:
    """Constants of the made-up world: nothing measured in it is faster than they allow."""
    run.constant("compute_units", 132.0, "1", width=0.0)
    run.constant("launch_graph_s", LAUNCH_S, "s")
    for kind in ("read", "write", "copy"):
        run.constant(f"dram_{kind}_bytes_per_s", COPY, "B/s")
    for recipe, rate in rates.items():
        run.constant(f"gemm.cublaslt.{recipe}.tile_family", 3.0, "code", width=0.0)
        run.constant(f"gemm.cublaslt.{recipe}.launch_s", LAUNCH_S, "s")
        run.constant(f"gemm.cublaslt.{recipe}.ceiling_flops_per_s", rate, "flop/s")
        run.constant(f"gemm.cublaslt.{recipe}.sustained_power_w", 690.0, "W")


RECIPES = ("bf16", "fp8_tensorwise", "fp8_axiswise")
SHAPES = (
    *((side, side, side) for side in (256, 1024, 4096, 8192)),
    *((tokens, 3584, 8192) for tokens in (1, 16, 64, 256)),
    *(
        (tokens, n, k)
        for tokens in (512, 4096)
        for n, k in ((1280, 8192), (8192, 1024), (7168, 8192))
    ),
    (16384, 8192, 512),
    (4096, 4096, 1024),
)
PANEL_SHAPE = (1024, 1024, 1024)
PANEL = (
    Protocol(),
    Protocol(cache="hot"),
    Protocol(distribution="zeros"),
    Protocol(method="events_flush"),
    Protocol(method="profiler"),
    Protocol(method="wall"),
)


def whole_run(environment: Environment = GPU) -> MadeUpRun:
    """A run with everything: all ops, a panel, a drifting sentinel, points without a time."""
    run = MadeUpRun(environment)
    for shape in SHAPES:
        for recipe in RECIPES:
            both = shape == PANEL_SHAPE and recipe == "bf16"
            sweeps = ("made_up", "panel") if both else ("made_up",)
            point = product(*shape, recipe=recipe, device=environment.device, sweeps=sweeps)
            add_predicted(run, point)
    for protocol in PANEL[1:]:
        panel: dict[str, Any] = {"protocol": protocol, "sweeps": ("panel",)}
        run.measure(product(*PANEL_SHAPE, device=environment.device, **panel))
    for repeat in range(1, 6):
        again: dict[str, Any] = {"repeat": repeat, "sweeps": ("sentinel",)}
        point = product(4096, 4096, 4096, device=environment.device, **again)
        run.measure(point, true_seconds(point) * (1 + DRIFT * (repeat - 1) / 4))
    for recipe in RECIPES[1:]:
        refused = product(333, 555, 777, recipe=recipe, device=environment.device)
        run.fail(refused, "unsupported", "n=555 is no multiple of 16")
    run.fail(product(32, 32, 64), "failed", "the worker died (signal SIGSEGV) at <0x0>")
    run.plan(product(32, 32, 32))
    _add_probes_and_casts(run)
    add_constants(run)
    return run


def add_predicted(run: MadeUpRun, point: PlanPoint) -> None:
    """A measured product with predictions of three models."""
    seconds = true_seconds(point)
    run.measure(point, seconds)
    guess = seconds * (1 + MODEL_ERROR[gemm_regime(**point.shape)])
    run.predict(point, "calibrated", guess, low_s=0.9 * guess, high_s=1.1 * guess)
    run.predict(point, "torchao", seconds * (1 + TORCHAO_ERROR))
    work = BY_NAME["gemm"].work(point.recipe, point.shape)
    peak = 1979e12 if point.recipe.startswith("fp8") else 989.5e12
    run.predict(point, "datasheet", max(work.flops / peak, work.dram_bytes / 4.8e12))


def _add_probes_and_casts(run: MadeUpRun) -> None:
    for method in ("graph", "wall"):
        run.measure(launch(1, method))
    for size in (1 << 20, 1 << 24, 1 << 28):
        for recipe in ("read", "write", "copy"):
            for cache in ("cold", "hot"):
                run.measure(stream(size, recipe, cache))
    for provider in ("torch_compile", "torch_eager"):
        for rows in (1024, 16384):
            point = cast(rows, 8192, "fp8_rowwise_dim0", provider)
            run.measure(point)
            run.predict(point, "calibrated", 0.5 * true_seconds(point), bound_by="dram")


def outdate(folder: Path, op: str) -> Calibration:
    """Makes the constants of an op, in a run folder, those of another equation.

    Returns the calibration, which has errors and spans of probes of this op and of casts.
    """
    path = folder / "calibration.jsonl"
    own = read_single_record(path, Calibration)
    names = {f"{op}.cublaslt.bf16", "cast.torch_compile.fp8_rowwise_dim0"}
    (errors,) = own.probe_errors.values()
    older = replace(
        own,
        equations={**own.equations, op: own.equations[op] - 1},
        probe_errors=dict.fromkeys(sorted(names), errors),
        probe_spans={name: {"bytes": (1.0, 2.0)} for name in sorted(names)},
    )
    write_records(path, [older])
    return older


def bare_run(environment: Environment = CPU) -> MadeUpRun:
    """A CPU with next to nothing: two products without readings, and an op without points."""
    made_up = MadeUpRun(environment)
    for recipe in ("bf16", "int8"):
        point = product(64, 64, 64, recipe, provider="torch_cpu", device=environment.device)
        made_up.measure(
            point,
            latency_samples_s=samples_around(true_seconds(point)),
            telemetry=Telemetry(),
            warmup_samples=0,
            slice_starts=(0,),
        )
    made_up.points["cast"] = []
    return made_up
