"""Ranks as processes, and an end to them in any case."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from tests.forked import start_process

RankMain = Callable[[int, int, str, str, int], None]  # rank, world, folder, what, seed


def run_ranks(main: RankMain, world: int, what: str, folder: Path, *, limit_s: float = 120) -> None:
    """Call `main` in a process per rank.

    Fails with what the ranks said, once one of them has failed, or when the time is over: ranks
    that wait for each other for ever are killed.
    """
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    seed = random.randrange(10_000)
    logs = [folder / f"said-{rank}" for rank in range(world)]
    ranks = [
        start_process(
            *(_be_rank, main, rank, world, str(folder), what, seed),
            log=log,
            fork=not torch.cuda.is_available(),
        )
        for rank, log in enumerate(logs)
    ]
    until = time.monotonic() + limit_s
    while any(rank.exitcode is None for rank in ranks) and time.monotonic() < until:
        if any(rank.exitcode for rank in ranks):  # the others would wait for it
            break
        time.sleep(0.05)
    ended = [rank.exitcode for rank in ranks]
    for process in ranks:
        process.kill()
        process.join()
    assert ended == [0] * world, (seed, *(log.read_text()[-2000:] for log in logs if log.exists()))


def _be_rank(main: RankMain, *arguments: Any) -> None:
    main(*arguments)
    os._exit(0)  # at an ordinary exit gloo's threads now and then abort the process
