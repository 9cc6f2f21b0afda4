"""Constants of links come back from records that were made with them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.calibration import calibrate
from roofcal.core.jsonl import write_records
from roofcal.core.records import Ceiling, PlanPoint, Protocol
from roofcal.models.link import link_of
from roofcal.ops.probe_link.fit import fit
from tests.roofcal.ask.llm.deployments import LINKED
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, device_with, read_probes
from tests.roofcal.made_up_records import timed

SIZES = [4096 * 4**power for power in range(10)]
RATE, LATENCY = 3.5e11, 9e-6
SHARES = {  # by hand: w = 2, 4, 8
    "all_gather": (1 / 2, 3 / 4, 7 / 8),
    "reduce_scatter": (1 / 2, 3 / 4, 7 / 8),
    "all_reduce": (1, 3 / 2, 7 / 4),
    "copy_engine_peer": (1, 1, 1),
}


def truth(provider: str, world_size: int) -> tuple[float, float]:
    """(rate, latency) that differ from provider to provider and from world to world."""
    factor = 2.0 if provider == "symm_mem" else 1.0
    return RATE * factor / world_size, LATENCY * world_size / factor


def rows(noise: float) -> Iterator[tuple[PlanPoint, float]]:
    source = np.random.default_rng(3)
    for recipe, shares in SHARES.items():
        for provider in ("symm_mem",) if recipe == "copy_engine_peer" else ("nccl", "symm_mem"):
            for world_size, share in zip((2, 4, 8), shares, strict=True):
                rate, latency = truth(provider, world_size)
                for size in SIZES:
                    seconds = (latency + share * size / rate) * np.exp(noise * source.normal())
                    yield _point(recipe, provider, world_size, size), seconds


def _point(recipe: str, provider: str, world_size: int, size: int, **how: str) -> PlanPoint:
    return PlanPoint(
        op="probe_link",
        provider=provider,
        recipe=recipe,
        shape={"size_bytes": size},
        device="made-up",
        world_size=world_size,
        protocol=Protocol(cache="hot", **how),  # type: ignore[arg-type]
    )


def write(folder: Path, rows_of_run: list[tuple[PlanPoint, float]]) -> Path:
    measured = [timed(point, ENVIRONMENT, *[seconds] * 5) for point, seconds in rows_of_run]
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    write_records(folder / "plan/probe_link.jsonl", [point for point, _ in rows_of_run])
    write_records(folder / "measurements/probe_link.jsonl", measured)
    return folder


def fitted(folder: Path) -> dict[str, Ceiling]:
    probes = read_probes(folder, "probe_link")
    return fit(probes, device_with(), np.random.default_rng(0)).constants


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-6), (0.03, 0.12)])
def test_known_constants_come_back_within_their_intervals(
    tmp_path: Path, noise: float, within: float
) -> None:
    curve_rows = fitted(write(tmp_path, list(rows(noise))))
    assert len(curve_rows) == (3 * 2 + 1) * 3 * 2
    held = []
    for name, constant in curve_rows.items():
        _, collective, world_size, kind = name.split(".")
        symmetric = collective.endswith("_symm_mem") or collective == "send"
        rate, latency = truth("symm_mem" if symmetric else "nccl", int(world_size))
        expected = rate if kind == "bytes_per_s" else latency
        assert constant.value == pytest.approx(expected, rel=within)
        assert constant.ci95_low <= constant.value <= constant.ci95_high
        slack = 1e-6 * expected
        held.append(constant.ci95_low - slack <= expected <= constant.ci95_high + slack)
    assert sum(held) >= 0.7 * len(held), "ten sizes: the bootstrap is a little narrow, not much"


def test_the_model_of_llms_reads_them(tmp_path: Path) -> None:
    calibration = calibrate(write(tmp_path, list(rows(0.0))))
    link = link_of(calibration, LINKED, "calibrated", tensor=8, pipeline=2)
    assert link.provenance == "link: calibrated"
    rate, latency = truth("nccl", 8)
    spent = link.collective("all_reduce", 8, 8e6).duration.value_s
    assert spent == pytest.approx(latency + 7 / 4 * 8e6 / rate)
    rate, latency = truth("symm_mem", 2)
    assert link.send(1e6).duration.value_s == pytest.approx(latency + 1e6 / rate)


def test_a_graph_counts_before_the_host_clock(tmp_path: Path) -> None:
    timed_points = [
        (_point("all_gather", "nccl", 2, size, method=method), base + size / 2 / RATE)
        for method, base in (("graph", LATENCY), ("wall", 1.0), ("events_flush", 2.0))
        for size in SIZES
    ]
    constants = fitted(write(tmp_path, timed_points))
    assert constants["link.all_gather.2.latency_s"].value == pytest.approx(LATENCY)
    assert "method graph, 10 sizes" in constants["link.all_gather.2.latency_s"].evidence


def test_a_graph_of_too_few_sizes_does_not_hide_the_host_clock(tmp_path: Path) -> None:
    timed_points = [
        (_point("all_gather", "nccl", 2, size, method=method), LATENCY + size / 2 / RATE)
        for method, sizes in (("graph", SIZES[:2]), ("wall", SIZES))
        for size in sizes
    ]
    constants = fitted(write(tmp_path, timed_points))
    assert "method wall, 10 sizes" in constants["link.all_gather.2.latency_s"].evidence


def test_two_sizes_are_no_line(tmp_path: Path) -> None:
    timed_points = [(_point("all_gather", "nccl", 2, size), 1e-5) for size in SIZES[:2]]
    assert fitted(write(tmp_path, timed_points)) == {}


def test_times_that_do_not_grow_have_the_highest_rate_seen(tmp_path: Path) -> None:
    timed_points = [(_point("all_reduce", "nccl", 2, size), 1e-5) for size in SIZES[:4]]
    constants = fitted(write(tmp_path, timed_points))
    assert constants["link.all_reduce.2.latency_s"].value == pytest.approx(1e-5, rel=1e-3)
    assert constants["link.all_reduce.2.bytes_per_s"].value >= SIZES[3] / 1e-5


def test_intervals_hold_sizes_that_a_line_does_not_follow(tmp_path: Path) -> None:
    # as NCCL, which moves vectors of some megabytes by a slower protocol
    slow = (2**20, 2**24)
    points = [
        (
            _point(recipe, "nccl", 2, size),
            (LATENCY + SHARES[recipe][0] * size / RATE) * (1.6 if size in slow else 1.0),
        )
        for recipe in ("all_gather", "reduce_scatter", "all_reduce")
        for size in SIZES
    ]
    constants = fitted(write(tmp_path, points))
    for point, seconds in points:
        rate, latency = (
            constants[f"link.{point.recipe}.2.{kind}"] for kind in ("bytes_per_s", "latency_s")
        )
        moved = SHARES[point.recipe][0] * point.shape["size_bytes"]
        assert seconds <= latency.ci95_high + moved / rate.ci95_low
        assert seconds >= latency.ci95_low + moved / rate.ci95_high


def test_a_line_that_fits_has_narrow_intervals_beside_one_that_does_not(tmp_path: Path) -> None:
    source = np.random.default_rng(3)
    noises = {"all_gather": 0.01, "all_reduce": 0.3}
    points = [
        (
            _point(recipe, "nccl", 2, size),
            (LATENCY + SHARES[recipe][0] * size / RATE) * np.exp(noise * source.normal()),
        )
        for recipe, noise in noises.items()
        for size in SIZES
    ]
    constants = fitted(write(tmp_path, points))

    def width(collective: str, kind: str) -> float:
        constant = constants[f"link.{collective}.2.{kind}"]
        return float(np.log(constant.ci95_high / constant.value))

    for kind in ("bytes_per_s", "latency_s"):
        assert width("all_gather", kind) < 0.8 * width("all_reduce", kind)
