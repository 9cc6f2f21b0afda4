"""Ranks as processes, and an end to them in any case."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run_ranks(module: str, world: int, what: str, folder: Path, *, limit_s: float = 120) -> None:
    """Run a function of a module of tests.kernels.gather in every rank.

    Fails with what the ranks said, once one of them has failed, or when the time is over: ranks
    that wait for each other for ever are killed.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_MODULE_LOADING": "EAGER"}
    seed = str(random.randrange(10_000))
    said = [folder / f"said-{rank}" for rank in range(world)]
    ranks = []
    for rank in range(world):
        arguments = [
            f"tests.kernels.gather.{module}",
            str(rank),
            str(world),
            str(folder),
            what,
            seed,
        ]
        with said[rank].open("w") as log:
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-m", *arguments], stdout=log, stderr=log, env=environment
                )
            )
    until = time.monotonic() + limit_s
    while any(rank.poll() is None for rank in ranks) and time.monotonic() < until:
        if any(rank.poll() for rank in ranks):  # the others would wait for it
            break
        time.sleep(0.05)
    ended = [rank.poll() for rank in ranks]
    for process in ranks:
        process.kill()
        process.wait()
    assert ended == [0] * world, (seed, *(log.read_text()[-2000:] for log in said))
