"""Points on several devices, by real workers: gloo processes on this machine's CPU."""

import os
import re
from pathlib import Path

import pytest
import torch
from torch import distributed

from roofcal.measure.ranks import Ranks
from roofcal.measure.session import measure
from tests.roofcal.measure.runs import Sweep, device_is_free, hot, rig, sweep_once, workers_here

REFUSED, BROKEN = "n must be a multiple of 16", "RuntimeError: CUBLAS_STATUS_INTERNAL_ERROR"
HANGS_AT = r"hang at stand_ins/faulty_bench\.py:\d+"
FAULTS = {
    "1_refuses": ("unsupported", f"rank 1: {REFUSED}"),
    "all_refuses": ("unsupported", REFUSED),
    "0_has_no_memory_for_its_inputs": ("out_of_memory", "rank 0: "),
    "1_is_wrong": ("incorrect", "relative error 0.5 exceeds 0.01"),
    "1_raises_while_timed": ("failed", f"rank 1: {BROKEN}"),
    "1_exits_while_timed": ("failed", r"rank 1: the worker died \(exit code 11\)"),
    "0_is_killed_while_timed": ("failed", r"rank 0: the worker died \(signal SIGKILL"),
    "1_hangs_while_timed": (
        "timeout",
        rf"no sign of life for 20 s; rank 1 \({HANGS_AT}\); the workers",
    ),
    "1_raises_before_the_others_meet": (
        "failed",
        f"rank 1: {BROKEN}; the other ranks waited for it for 20 s",
    ),
}
FINE = ["fine_1", "fine_2", "1_is_slow"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """One group of two ranks with every fault between good points, and a group behind it."""
    plan = [hot(recipe, world_size=2) for recipe in [FINE[0], *FAULTS, FINE[1]]]
    plan.append(hot(FINE[2], world_size=2, repeat=1))
    return sweep_once(tmp_path_factory, plan, visits=2, most_visits=2)


@pytest.mark.parametrize("recipe", FAULTS)
def test_a_fault_of_one_rank_is_a_row_that_names_the_rank(sweep: Sweep, recipe: str) -> None:
    status, reason = FAULTS[recipe]
    row = sweep.rows[recipe]
    assert (row.status, row.latency_samples_s) == (status, ())
    assert re.match(reason, str(row.reason))


@pytest.mark.parametrize("recipe", FINE)
def test_the_neighbours_of_faults_are_measured_with_the_spread_over_ranks(
    sweep: Sweep, recipe: str
) -> None:
    row = sweep.rows[recipe]
    assert (row.status, row.relative_error) == ("ok", 0.0)
    assert len(row.visits) == 2, "all ranks make a second visit together"
    pairs = zip(row.fastest_rank_s, row.latency_samples_s, strict=True)
    assert all(0 < fastest <= sample for fastest, sample in pairs)
    assert len(row.rank_medians_s) == 2
    assert max(row.rank_medians_s) <= 1.0001 * max(row.latency_samples_s)  # five digits


def test_the_slowest_rank_counts_and_nobody_and_no_lock_is_left(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 sleeps 2 ms before it joins each of the calls."""
    assert min(sweep.rows["1_is_slow"].latency_samples_s) >= 2e-3
    assert workers_here() == []
    monkeypatch.setenv("ROOFCAL_LOCKS", sweep.run.locks)
    assert device_is_free()


def test_ranks_that_do_not_start_fail_their_points_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = rig(monkeypatch, tmp_path, ops__gemm__bench="faulty_bench.py")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "no_network")
    plan = [hot("fine_1"), hot("fine_1", world_size=2), hot("fine_2", world_size=2, repeat=1)]
    alone, *together = measure(run.job(plan))
    assert alone.status == "ok"
    assert {row.status for row in together} == {"failed"}
    said = r"the 2 measuring processes did not start: rank [01]: .*no_network.*"
    assert all(re.fullmatch(said, str(row.reason)) for row in together)


def test_no_provider_uses_multicast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "0")
    setup = {"rank": 0, "world_size": 1, "store": str(tmp_path / "store")}
    Ranks(setup, torch.device("cpu"), pytest.fail)
    distributed.destroy_process_group()
    assert os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] == "1"
