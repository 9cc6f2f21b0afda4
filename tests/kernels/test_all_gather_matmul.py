"""The collective with ranks as processes on the CPU, and what it refuses."""

import os
import random
import subprocess
import sys
import time
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
    until = time.monotonic() + LIMIT_S
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < until:
        if any(rank.poll() for rank in ranks):  # the others would wait for it
            break
        time.sleep(0.05)
    ended = [rank.poll() for rank in ranks]
    for rank in ranks:
        rank.kill()
    said = [rank.communicate()[0][-2000:] for rank in ranks]
    assert ended == [0] * world, (seed, *said)


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
