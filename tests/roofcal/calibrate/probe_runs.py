"""Run folders of a made-up GPU whose constants are known, for tests of calibrate and predict."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from roofcal.calibrate import points_timed
from roofcal.core.jsonl import write_records
from roofcal.core.paths import RunFolder
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Measurement, PlanPoint, Protocol
from roofcal.core.statistics import summarise
from roofcal.fitting.probes import Device, Probe
from roofcal.ops.cast import model as cast_model
from roofcal.ops.gemm.model import evaluate
from roofcal.ops.gemm.tiles import describe
from tests.roofcal.made_up_records import (
    environment_of,
    exactly,
    point_of,
    readings,
    row,
    timed,
)

UNITS = 132
TRUTH: dict[str, float] = {
    "launch_s": 3e-6,
    "tile_flops_per_s": 1.2e13,
    "l2_bytes_per_s": 1.5e13,
    "k_latency_s_per_byte": 6e-10,
    "wave_s": 1e-6,
    "split_k_s": 1.5e-6,  # cheap enough that some probes split K
    "store_bytes_per_s": 4e10,
    "piece_bytes_per_s": 2e12,
    "misaligned": 1.4,
    "k_latency_8_byte_s_per_byte": 5e-9,
    "k_latency_odd_s_per_byte": 7e-9,
    "dram_bytes_per_s": 4.1e12,
    "sustained_flops_per_s": 7e14,
}
PACKED_TRUTH: dict[str, float] = {  # as fast as the GPU, so that its shapes and times serve
    "launch_s": 3e-6,
    "side_s": 1e-10,
    "tile_flops_per_s": 5e12,
    "direct_flops_per_s": 1e13,
    "dram_bytes_per_s": 2e12,
}
CAST_TRUTH: dict[str, float] = {
    "fixed_s": 4e-6,
    "bytes_per_s": 1.8e12,
    "misaligned": 1.5,
}
PROCESSOR_CAST_TRUTH: dict[str, float] = {
    "fixed_s": 1.3e-5,
    "cached_bytes_per_s": 4e9,
    "bytes_per_s": 1.5e9,
    "fork_s": 1.6e-5,
    "serial_bytes_per_s": 2e10,
    "near_bytes": 1.3e6,
    "row_s": 8e-8,
}
DRAM = {"read": 4.4e12, "write": 4.6e12, "copy": 4.2e12}
CACHE = 9e12
START_S = 2e-6
ENVIRONMENT = environment_of(compute_units=UNITS, last_level_cache_bytes=50 << 20, python="3")


def read_probes(run: Path, op: str) -> list[Probe]:
    """The probes of an op of a run folder."""
    return points_timed(RunFolder.at(run), op)


def as_probes(rows: list[tuple[PlanPoint, float]]) -> list[Probe]:
    """Points with their seconds as probes, without a run folder."""
    return [Probe(point=point, measurement=row(), latency=summarise([t] * 9)) for point, t in rows]


def device_with(stream: float | None = None, **changes: Any) -> Device:
    """What fits know of the made-up GPU: the bandwidth of streams, and changes of its record."""
    environment = replace(ENVIRONMENT, **changes)
    stream_constants = {} if stream is None else {"dram_read_bytes_per_s": exactly(stream, "B/s")}
    cache_bytes = environment.last_level_cache_bytes
    return Device(environment=environment, cache_bytes=cache_bytes, constants=stream_constants)


def write_run(
    folder: Path,
    *,
    noise: float = 0.0,
    family: str = "any_tile_split_k",
    ops: Collection[str] = ("probe_copy", "probe_launch", "probe_math", "probe_cast"),
) -> Path:
    """A run folder with probe ops of the made-up GPU."""
    source = np.random.default_rng(7)
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    rows = {
        "probe_copy": streams(),
        "probe_launch": launches(),
        "probe_math": products(family),
        "probe_cast": casts(),
    }
    for op in ops:
        _write(folder, op, rows[op], 0.0 if op == "probe_launch" else noise, source)
    return folder


def streams() -> list[tuple[PlanPoint, float]]:
    rows = []
    for kind, rate in DRAM.items():
        for power in range(20, 33):
            size = 1 << power
            moved = size * (2 if kind == "copy" else 1)
            for cache, by in (("cold", rate), ("hot", CACHE)):
                protocol = Protocol(cache=cache)  # type: ignore[arg-type]
                point = _point("probe_copy", kind, {"size_bytes": size}, protocol)
                rows.append((point, START_S + moved / by))
    return rows


def launches() -> list[tuple[PlanPoint, float]]:
    graph, wall = Protocol(cache="hot"), Protocol(method="wall", cache="hot")
    return [
        (_point("probe_launch", "empty", {"grid": 1}, graph), 7e-7),
        (_point("probe_launch", "empty", {"grid": 1056}, graph), 12e-7),
        (_point("probe_launch", "empty", {"grid": 1}, wall), 13e-6),
    ]


def products(
    family: str,
    recipe: str = "bf16",
    count: int = 64,
    *,
    provider: str = "made",
    truth: Mapping[str, float] = TRUTH,
) -> list[tuple[PlanPoint, float]]:
    m, n, k = shapes(count)
    total = seconds(recipe, family, truth, m, n, k)
    sizes = [{"m": int(a), "n": int(b), "k": int(c)} for a, b, c in zip(m, n, k, strict=True)]
    points = [_point("probe_math", recipe, size, Protocol()) for size in sizes]
    return [(replace(p, provider=provider), float(t)) for p, t in zip(points, total, strict=True)]


def write_products(folder: Path, rows: list[tuple[PlanPoint, float]]) -> None:
    """The rows as the probes of products of a run folder, with a little noise."""
    _write(folder, "probe_math", rows, 0.01, np.random.default_rng(7))


def casts(
    recipe: str = "fp8_rowwise_dim0", family: str = "plain", count: int = 28
) -> list[tuple[PlanPoint, float]]:
    source = np.random.default_rng(5)
    rows, cols = (np.round(128 * np.exp(source.uniform(0, 5, count))) for _ in range(2))
    ragged = source.random(count) < 0.3
    rows, cols = np.where(ragged, rows, 128 * np.ceil(rows / 128)), 128 * np.ceil(cols / 128)
    total = cast_seconds(recipe, family, rows, cols)
    sizes = [{"rows": int(r), "cols": int(c)} for r, c in zip(rows, cols, strict=True)]
    points = [_point("probe_cast", recipe, size, Protocol()) for size in sizes]
    return list(zip(points, total.tolist(), strict=True))


def cast_seconds(recipe: str, family: str, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    truth = PROCESSOR_CAST_TRUTH if family == "threads" else CAST_TRUTH
    return cast_model.evaluate(truth, family, recipe, (rows, cols), UNITS).total


def shapes(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    source = np.random.default_rng(seed)
    m, n, k = (64 * np.round(np.exp(source.uniform(0.7, 5.5, count))) for _ in range(3))
    few = source.random(count) < 0.3
    return np.where(few, np.round(np.exp(source.uniform(0, 4.5, count))), m), n, k


def seconds(
    recipe: str,
    family: str,
    constants: Mapping[str, float],
    m: np.ndarray,
    n: np.ndarray,
    k: np.ndarray,
) -> np.ndarray:
    """What the equation says; a family has one of the two constants for the end of a tile."""
    assert recipe in GEMM_RECIPES
    is_one_size = describe(recipe, m, n, k, family, UNITS).choices.is_one_size
    absent = "store_bytes_per_s" if is_one_size else "wave_s"
    own = {name: value for name, value in constants.items() if name != absent}
    return evaluate(own, family, recipe, (m, n, k), UNITS).total


def _point(op: str, recipe: str, shape: dict[str, int], protocol: Protocol) -> PlanPoint:
    return point_of(op, recipe, shape, protocol=protocol)


def _write(
    folder: Path,
    op: str,
    rows: list[tuple[PlanPoint, float]],
    noise: float,
    source: np.random.Generator,
) -> None:
    write_records(folder / "plan" / f"{op}.jsonl", [point for point, _ in rows])
    write_records(
        folder / "measurements" / f"{op}.jsonl",
        [_measurement(point, t * float(np.exp(source.normal(0, noise)))) for point, t in rows],
    )


def _measurement(point: PlanPoint, t: float) -> Measurement:
    settled = tuple(t * (1 + 1e-4 * (i % 5 - 2)) for i in range(20))
    sensors = readings(
        (0, 1),
        sm_clock_hz=(1.98e9, 1.4e9),
        memory_clock_hz=3.2e9,
        power_w=(400.0, 690.0),
        temperature_c=(40.0, 60.0),
        throttle_reasons=((), ("power_cap",)),
    )
    return replace(
        timed(point, ENVIRONMENT, t * 0.8, *settled), warmup_samples=1, telemetry=sensors
    )
