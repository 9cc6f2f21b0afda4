"""The collective with ranks as processes on the CPU, and what it refuses."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("gathered_ranks.py")
LIMIT_S = 120  # then the ranks are killed: they wait for each other for ever


def run_ranks(world: int, what: str, folder: Path) -> None:
    """Run a function of gathered_ranks in every rank; fails with what the ranks said."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    seed = str(random.randrange(10_000))
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(world), str(folder), what, seed],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(world)
    ]
    said = []
    try:
        for rank in ranks:
            said.append(rank.communicate(timeout=LIMIT_S)[0])  # noqa: PERF401 (kept on a timeout)
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * world, (seed, *(s[-2000:] for s in said))


needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="ranks are on the CPU here")


@needs_no_gpu
@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_follow_each_other_through_turns_and_sizes(world: int, tmp_path: Path) -> None:
    run_ranks(world, "soak", tmp_path)


@needs_no_gpu
def test_in_sequence_it_gathers_and_multiplies(tmp_path: Path) -> None:
    run_ranks(2, "sequence", tmp_path)


@needs_no_gpu
def test_without_a_gpu_every_rank_says_that_there_is_no_symmetric_memory(tmp_path: Path) -> None:
    run_ranks(2, "refused", tmp_path)
