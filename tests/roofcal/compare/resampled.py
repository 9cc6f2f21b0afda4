"""Runs made of the published records of a real H200: measured again, as far as samples can tell.

Three ways. `samples`: every settled sample is drawn anew from all of its point, as if samples had
no memory. `turns`: whole turns are drawn, so the power controller's memory stays: at the power
limit a point is then known to about 1 % only, which no method can undo. `drawn_visits`: every visit
has turns drawn anew and an offset of its own, because the published points were visited once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import trim_mean

from roofcal.compare.observations import ObservedRun
from roofcal.core.jsonl import read_records
from roofcal.core.records import Environment, Measurement, PlanPoint, Telemetry
from roofcal.core.visits.rows import merged_visits
from tests.paths import ROOT
from tests.roofcal.compare.made_up import observations_of

Kind = Literal["samples", "turns"]
Record = tuple[PlanPoint, Measurement]


def published() -> Path:
    """The folder of the published H200."""
    return sorted((ROOT / "reports/published/nvidia-h200").glob("*/environment.jsonl"))[0].parent


@cache
def records() -> tuple[Record, ...]:
    """Its points with a time, and their measurements."""
    measured: list[Record] = []
    for path in sorted((published() / "plan").glob("*.jsonl.gz")):
        points = {p.point_id: p for p in read_records(path, PlanPoint)}
        rows = read_records(published() / "measurements" / path.name, Measurement)
        timed = [row for row in rows if row.status == "ok" and row.settled_samples_s]
        measured += [(points[row.point_id], row) for row in timed]
    return tuple(measured)


def drawn(
    seed: int, kind: Kind, factors: Mapping[str, float] | None = None, *, least_devices: int = 1
) -> ObservedRun:
    """The H200 measured again, a copy of its own, which a test may change.

    factors: of the time of points by point_id. least_devices: leaves out points of fewer.
    """
    run = _drawn(seed, kind, tuple((factors or {}).items()), least_devices)
    return replace(run, points=run.points.copy())


@lru_cache(maxsize=6)  # two seconds each, and several tests start from the same
def _drawn(
    seed: int, kind: Kind, factors: tuple[tuple[str, float], ...], least_devices: int
) -> ObservedRun:
    source, by_id = np.random.default_rng(seed), dict(factors)
    return _observed(
        [
            (point, _redrawn(row, kind, source, by_id.get(point.point_id, 1.0)))
            for point, row in records()
            if point.world_size >= least_devices
        ]
    )


def drawn_visits(
    seed: int,
    scatter: float,
    factors: Mapping[str, float] | None = None,
    *,
    visits: int = 2,
    states: float = 0.0,
    thinned: int = 1,
) -> ObservedRun:
    """The H200 measured again in several visits.

    Args:
        seed: of all that is drawn.
        scatter: standard deviation between visits of a point, of the logarithm of its time.
        factors: of the time of points, by point_id.
        visits: to every point.
        states: share of visits that are 7 % slower than the others, as allocations on H200s are.
        thinned: every so many points of an op are drawn.
    """
    source = np.random.default_rng(seed)
    again = []
    for point, row in records()[::thinned]:
        factor = (factors or {}).get(point.point_id, 1.0)
        made = [_redrawn(row, "turns", source, factor) for _ in range(visits)]
        offsets = source.normal(0, scatter, visits)
        offsets += np.log(1.07) * (source.random(visits) < states)
        lines = [
            replace(
                line, visit=number, latency_samples_s=_scaled(line.latency_samples_s, np.exp(shift))
            )
            for number, (line, shift) in enumerate(zip(made, offsets, strict=True))
        ]
        again.append((point, merged_visits(lines)))
    return _observed(again)


def _observed(again: Sequence[Record]) -> ObservedRun:
    environment = read_records(published() / "environment.jsonl", Environment)[0]
    by_op: dict[str, list[Record]] = {}
    for point, row in again:
        by_op.setdefault(point.op, []).append((point, row))
    points = pd.concat([observations_of(of_op) for of_op in by_op.values()])
    return ObservedRun(folder=published(), environment=environment, points=points)


def _redrawn(
    row: Measurement, kind: Kind, source: np.random.Generator, factor: float
) -> Measurement:
    turns = [turn for visit in row.settled_turns_s for turn in visit]
    chosen = source.integers(0, len(turns), len(turns))
    if kind == "turns":
        taken = [np.array(turns[i]) for i in chosen]
    else:
        every = np.concatenate([np.array(turn) for turn in turns])
        taken = [source.choice(every, len(turn)) for turn in turns]
    starts = tuple(np.cumsum([0, *map(len, taken)])[:-1].tolist())
    sensors = zip(row.telemetry.sample_index, row.telemetry.sm_clock_hz, strict=False)
    clocks = [clock for index, clock in sensors if index >= row.warmup_samples]
    return replace(
        row,
        latency_samples_s=_scaled(np.concatenate(taken), factor),
        warmup_samples=0,
        unsettled_samples=(),
        visits=(),
        slice_starts=starts,
        telemetry=Telemetry(
            sample_index=starts,
            sm_clock_hz=tuple(clocks[i % len(clocks)] for i in chosen) if clocks else (),
        ),
    )


def _scaled(samples: ArrayLike, factor: float) -> tuple[float, ...]:
    return tuple((np.asarray(samples) * factor).tolist())


@cache
def variances_of_visits() -> dict[str, float]:
    """Of the logarithm of a visit's time whose turns are drawn anew, by point_id."""
    # 0.1 of the samples of a turn do not count at either end, as in roofcal.compare.observations.
    times = {
        point.point_id: [
            trim_mean(np.log(turn), 0.1) for visit in row.settled_turns_s for turn in visit
        ]
        for point, row in records()
    }
    return {name: float(np.var(turns)) / len(turns) for name, turns in times.items()}


def planted(seed: int, share: float) -> frozenset[str]:
    """point_ids of a share of the points."""
    ids = sorted(point.point_id for point, _ in records())
    chosen = np.random.default_rng(seed).choice(ids, round(share * len(ids)), replace=False)
    return frozenset(str(name) for name in chosen)


def slowed(ids: Collection[str], factor: float) -> dict[str, float]:
    """Factors of the time of points."""
    return dict.fromkeys(ids, factor)
