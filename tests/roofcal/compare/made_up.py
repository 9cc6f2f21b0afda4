"""Small runs in memory and on disk, point by point, for the tests of compare."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from roofcal.compare.observations import COLUMNS, Observation, ObservedRun, observations
from roofcal.core.jsonl import write_records
from roofcal.core.records import (
    Calibration,
    Ceiling,
    Environment,
    Measurement,
    PlanPoint,
    Telemetry,
)
from roofcal.points.reader import points_of_records
from tests.roofcal.made_up_records import session

ENVIRONMENT = Environment(
    device="made-up", vendor="nvidia", device_name="Made Up", compute_units=1, torch="2", python="3"
)
MAP = "recipe,pass,casts,m,n,k,speedup,low,high,class,breakeven_m,breakeven_m_low,breakeven_m_high"


def point(m: int = 512, recipe: str = "bf16", **other: Any) -> PlanPoint:
    shape = {"m": m, "n": 512, "k": 512}
    values = {"op": "gemm", "provider": "cublaslt", "device": "made-up"} | other
    return PlanPoint(recipe=recipe, shape=shape, **values)


def readings(sample_index: tuple[int, ...], clock_hz: float) -> Telemetry:
    """One reading at each sample, all of them equal."""
    count = len(sample_index)
    return Telemetry(
        sample_index=sample_index,
        sm_clock_hz=(clock_hz,) * count,
        memory_clock_hz=(3.2e9,) * count,
        power_w=(700.0,) * count,
        temperature_c=(60.0,) * count,
        throttle_reasons=((),) * count,
    )


def measurement(
    of: PlanPoint, turns_s: Sequence[float], clock_hz: float | None = 1.98e9, **other: Any
) -> Measurement:
    """Five equal samples per turn, and a warm-up of one turn that is twice as slow."""
    every = [2 * turns_s[0], *turns_s] if turns_s else []
    starts = tuple(5 * i for i in range(len(every)))
    clocks = (clock_hz,) * len(every) if clock_hz else ()
    values = {"status": "ok", "kernel_names": ("kernel",)} | other
    return Measurement(
        point_id=of.point_id,
        environment_id=ENVIRONMENT.environment_id,
        session_id="s",
        latency_samples_s=tuple(t for t in every for _ in range(5)),
        warmup_samples=5 if every else 0,
        slice_starts=starts,
        telemetry=readings(starts if clocks else (), clock_hz or 0.0),
        **values,
    )


def observations_of(pairs: Sequence[tuple[PlanPoint, Measurement]]) -> list[Observation]:
    """The observations of points of one op by their measurements."""
    points = [point for point, _ in pairs]
    rows = [replace(row, point_id=point.point_id) for point, row in pairs]
    return observations(points_of_records(points[0].op, points, rows, COLUMNS))


def observation(point: PlanPoint, row: Measurement) -> Observation:
    """The observation of one point, whose interval borrows from no other."""
    return observations_of([(point, row)])[0]


def observed(rows: Sequence[Observation]) -> ObservedRun:
    points = {row.key: row for row in rows}
    return ObservedRun(folder=Path("made-up"), environment=ENVIRONMENT, points=points)


def many(
    count: int = 60, factor: float = 1.0, seed: int = 0, clock_hz: float | None = 1.98e9
) -> list[Observation]:
    """Points around a millisecond, turns 0.1 % apart; factor: of the time of all."""
    source = np.random.default_rng(seed)
    points = [point(512 + 16 * i) for i in range(count)]
    times = factor * 1e-3 * np.exp(source.normal(0, 1e-3, (count, 5)))
    return observations_of(
        [
            (p, measurement(p, [float(t) for t in row], clock_hz))
            for p, row in zip(points, times, strict=True)
        ]
    )


def write_run(
    folder: Path, rows: Sequence[tuple[PlanPoint, Measurement]], rate: float = 1e12, m: str = "64"
) -> Path:
    """A run folder with a calibration of one constant and a map of one linear.

    A point without times (`measurement(point, [])`) of status "ok" is planned and not measured.
    """
    environment = ENVIRONMENT
    header = session(
        environment_id=environment.environment_id,
        device_uuid="GPU-1",
        started_utc="2026-01-01T00:00:00+00:00",
    )
    write_records(folder / "environment.jsonl", [environment])
    for op in dict.fromkeys(p.op for p, _ in rows):
        write_records(folder / f"plan/{op}.jsonl", [p for p, _ in rows if p.op == op])
        measured = [row for p, row in rows if p.op == op and not _is_unmeasured(row)]
        if measured:
            write_records(folder / f"measurements/{op}.jsonl", [header, *measured])
    constant = Ceiling(
        value=rate, ci95_low=0.99 * rate, ci95_high=1.01 * rate, unit="B/s", evidence=""
    )
    fitted = Calibration(
        device="made-up",
        environment_id=environment.environment_id,
        constants={"dram_read_bytes_per_s": constant},
    )
    write_records(folder / "calibration.jsonl", [fitted])
    (folder / "breakeven.csv").write_text(
        f"{MAP}\nfp8,forward,none,16,512,512,1,1,1,even,{m},{m},{m}\n"
    )
    return folder


def _is_unmeasured(row: Measurement) -> bool:
    return row.status == "ok" and not row.latency_samples_s


def slower(row: Measurement, factor: float) -> Measurement:
    """The same measurement with other times."""
    samples = tuple(factor * sample for sample in row.latency_samples_s)
    return replace(row, latency_samples_s=samples)
