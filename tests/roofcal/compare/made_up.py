"""Small runs in memory and on disk, point by point, for the tests of compare."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roofcal.compare.observations import COLUMNS, ObservedRun, in_both, observations
from roofcal.core.jsonl import write_records
from roofcal.core.records import Calibration, Measurement, PlanPoint
from roofcal.points.reader import points_of_records
from tests.roofcal.made_up_records import environment_of, exactly, readings, session, timed

ENVIRONMENT = environment_of()
MAP = "recipe,pass,casts,m,n,k,speedup,low,high,class,breakeven_m,breakeven_m_low,breakeven_m_high"

Row = tuple[PlanPoint, Measurement]


def point(m: int = 512, recipe: str = "bf16", **other: Any) -> PlanPoint:
    shape = {"m": m, "n": 512, "k": 512}
    values = {"op": "gemm", "provider": "cublaslt", "device": "made-up"} | other
    return PlanPoint(recipe=recipe, shape=shape, **values)


def measurement(
    of: PlanPoint, turns_s: Sequence[float], clock_hz: float | None = 1.98e9, **other: Any
) -> Measurement:
    """Five equal samples per turn, and a warm-up of one turn that is twice as slow."""
    every = [2 * turns_s[0], *turns_s] if turns_s else []
    starts = tuple(5 * i for i in range(len(every)))
    values: dict[str, Any] = {
        "warmup_samples": 5 if every else 0,
        "slice_starts": starts,
        "telemetry": readings(starts if clock_hz else (), sm_clock_hz=clock_hz),
        "kernel_names": ("kernel",),
    }
    samples = (t for t in every for _ in range(5))
    return replace(timed(of, ENVIRONMENT, *samples), **values | other)


def observations_of(rows: Sequence[Row]) -> pd.DataFrame:
    """The table of points of one op by their measurements."""
    points = [of for of, _ in rows]
    measured = [replace(row, point_id=of.point_id) for of, row in rows]
    return observations(points_of_records(points[0].op, points, measured, COLUMNS))


def observed(points: pd.DataFrame) -> ObservedRun:
    return ObservedRun(folder=Path("made-up"), environment=ENVIRONMENT, points=points)


def pairs_of(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    return in_both(observed(a), observed(b))


def rows_of(
    seed: int,
    factors: Sequence[float] = (),
    *,
    count: int = 60,
    factor: float = 1.0,
    clock_hz: float | None = 1.98e9,
) -> list[Row]:
    """Points around a millisecond, turns 0.1 % apart.

    factors: of the times of the first points. factor: of all.
    """
    source = np.random.default_rng(seed)
    times = factor * 1e-3 * np.exp(source.normal(0, 1e-3, (count, 5)))
    times[: len(factors)] *= np.array(factors)[:, None] if factors else 1.0
    points = [point(512 + 16 * i) for i in range(count)]
    return [
        (p, measurement(p, row, clock_hz)) for p, row in zip(points, times.tolist(), strict=True)
    ]


def many(seed: int = 0, **how: Any) -> pd.DataFrame:
    """The table of `rows_of`; a copy of its own, which a test may change."""
    return _many(seed, **how).copy()


@cache  # some tests ask for the same one hundreds of times
def _many(seed: int, **how: Any) -> pd.DataFrame:
    return observations_of(rows_of(seed, **how))


def write_run(
    folder: Path,
    rows: Sequence[Row],
    rate: float = 1e12,
    m: str = "64",
    card: str = "GPU-1",
    code: str = "c0de",
) -> Path:
    """A run folder with a calibration of one constant and a map of one linear.

    A point without times (`measurement(point, [])`) of status "ok" is planned and not measured.
    """
    environment_id, begin = ENVIRONMENT.environment_id, "2026-01-01T00:00:00+00:00"
    of_run = {"device_uuid": card, "code_hash": code, "started_utc": begin}
    header = session(environment_id=environment_id, **of_run)
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    for op in dict.fromkeys(p.op for p, _ in rows):
        write_records(folder / f"plan/{op}.jsonl", [p for p, _ in rows if p.op == op])
        of_op = [row for p, row in rows if p.op == op]
        measured = [row for row in of_op if row.status != "ok" or row.latency_samples_s]
        if measured:
            write_records(folder / f"measurements/{op}.jsonl", [header, *measured])
    constants = {"dram_read_bytes_per_s": exactly(rate, "B/s", half=0.01 * rate)}
    fitted = Calibration(device="made-up", environment_id=environment_id, constants=constants)
    write_records(folder / "calibration.jsonl", [fitted])
    return write_map(folder, {512: (m, m, m)})


def write_map(folder: Path, ends: Mapping[int, Sequence[str]]) -> Path:
    """A break-even map. ends: N of a linear -> M and its interval as text, "" for never."""
    rows = [f"fp8,forward,none,16,{n},512,1,1,1,even,{','.join(m)}\n" for n, m in ends.items()]
    (folder / "breakeven.csv").write_text(f"{MAP}\n{''.join(rows)}")
    return folder
