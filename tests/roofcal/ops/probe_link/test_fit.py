"""Constants of links come back from records that were made with them."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Ceiling, PlanPoint, Protocol
from roofcal.ops.probe_link.fit import fit
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT, device_with, read_probes
from tests.roofcal.made_up_records import point_of, timed

Row = tuple[PlanPoint, float]
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


def every_row(noise: float) -> list[Row]:
    source, rows = np.random.default_rng(3), []
    for recipe, shares in SHARES.items():
        for provider in ("symm_mem",) if recipe == "copy_engine_peer" else ("nccl", "symm_mem"):
            for world_size, share in zip((2, 4, 8), shares, strict=True):
                rate, latency = truth(provider, world_size)
                for size in SIZES:
                    seconds = (latency + share * size / rate) * np.exp(noise * source.normal())
                    rows.append((point(recipe, size, provider, world_size), seconds))
    return rows


def point(
    recipe: str, size: int, provider: str = "nccl", world_size: int = 2, **how: str
) -> PlanPoint:
    protocol = Protocol(cache="hot", **how)  # type: ignore[arg-type]
    ranks = {"provider": provider, "world_size": world_size, "protocol": protocol}
    return point_of("probe_link", recipe, {"size_bytes": size}, **ranks)


def of_two(recipe: str, slower: Callable[[int], float] = lambda _: 1.0) -> list[Row]:
    """Transfers of NCCL among two devices, of some sizes by a factor longer."""
    share = SHARES[recipe][0]
    return [(point(recipe, s), (LATENCY + share * s / RATE) * slower(s)) for s in SIZES]


def write(folder: Path, rows: Iterable[Row]) -> Path:
    plan = list(rows)
    measured = [timed(one, ENVIRONMENT, *[seconds] * 5) for one, seconds in plan]
    write_records(folder / "environment.jsonl", [ENVIRONMENT])
    write_records(folder / "plan/probe_link.jsonl", [one for one, _ in plan])
    write_records(folder / "measurements/probe_link.jsonl", measured)
    return folder


def fitted(folder: Path, rows: Iterable[Row]) -> dict[str, Ceiling]:
    probes = read_probes(write(folder, rows), "probe_link")
    return fit(probes, device_with(), np.random.default_rng(0)).constants


@pytest.mark.parametrize(("noise", "within"), [(0.0, 1e-6), (0.03, 0.12)])
def test_known_constants_come_back_within_their_intervals(
    tmp_path: Path, noise: float, within: float
) -> None:
    constants = fitted(tmp_path, every_row(noise))
    assert len(constants) == (3 * 2 + 1) * 3 * 2
    held = []
    for name, constant in constants.items():
        _, collective, world_size, kind = name.split(".")
        symmetric = collective.endswith("_symm_mem") or collective == "send"
        rate, latency = truth("symm_mem" if symmetric else "nccl", int(world_size))
        expected = rate if kind == "bytes_per_s" else latency
        assert constant.value == pytest.approx(expected, rel=within)
        assert constant.ci95_low <= constant.value <= constant.ci95_high
        slack = 1e-6 * expected
        held.append(constant.ci95_low - slack <= expected <= constant.ci95_high + slack)
    assert sum(held) >= 0.7 * len(held), "ten sizes: the bootstrap is a little narrow, not much"


@pytest.mark.parametrize(("in_a_graph", "method"), [(SIZES, "graph"), (SIZES[:2], "wall")])
def test_a_graph_of_three_sizes_counts_before_the_host_clock(
    tmp_path: Path, in_a_graph: list[int], method: str
) -> None:
    bases = {"graph": (in_a_graph, LATENCY), "wall": (SIZES, 1.0), "events_flush": (SIZES, 2.0)}
    constants = fitted(
        tmp_path,
        (
            (point("all_gather", size, method=name), base + size / 2 / RATE)
            for name, (sizes, base) in bases.items()
            for size in sizes
        ),
    )
    latency = constants["link.all_gather.2.latency_s"]
    assert latency.value == pytest.approx(bases[method][1])
    assert f"method {method}, 10 sizes" in latency.evidence


def test_two_sizes_are_no_line(tmp_path: Path) -> None:
    assert fitted(tmp_path, of_two("all_gather")[:2]) == {}


def test_times_that_do_not_grow_have_the_highest_rate_seen(tmp_path: Path) -> None:
    constants = fitted(tmp_path, [(point("all_reduce", size), 1e-5) for size in SIZES[:4]])
    assert constants["link.all_reduce.2.latency_s"].value == pytest.approx(1e-5, rel=1e-3)
    assert constants["link.all_reduce.2.bytes_per_s"].value >= SIZES[3] / 1e-5


def test_intervals_hold_sizes_that_a_line_does_not_follow(tmp_path: Path) -> None:
    # as NCCL, which moves vectors of some megabytes by a slower protocol
    def slower(size: int) -> float:
        return 1.6 if size in (2**20, 2**24) else 1.0

    rows = [row for name in list(SHARES)[:3] for row in of_two(name, slower)]
    constants = fitted(tmp_path, rows)
    for one, seconds in rows:
        rate, latency = (
            constants[f"link.{one.recipe}.2.{kind}"] for kind in ("bytes_per_s", "latency_s")
        )
        moved = SHARES[one.recipe][0] * one.shape["size_bytes"]
        assert seconds <= latency.ci95_high + moved / rate.ci95_low
        assert seconds >= latency.ci95_low + moved / rate.ci95_high
