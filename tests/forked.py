"""Processes forked from one server that has imported what takes seconds, and none of our code.

There is one server per test process. Own code stays out of it: some of these processes run the code
of another checkout.
"""

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess, SpawnProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

IMPORTED = [
    *("snakemake.cli", "snakemake.storage", "snakemake.assets", "snakemake.profiles"),
    *("snakemake.report.html_reporter", "smart_open", "yte", "pydantic", "jinja2"),
    "pandas",  # Snakemake compares parameters with it, and a fit takes it
    *("torch.distributed", "torch._inductor.compile_fx", "triton"),
]


def start_server() -> int:
    """Start the server where it is not there yet; its number."""
    multiprocessing.set_forkserver_preload(IMPORTED)
    forkserver.ensure_running()
    return int(vars(forkserver._forkserver)["_forkserver_pid"])


def start_process(
    target: Callable[..., Any], *arguments: Any, log: Path, fork: bool = True
) -> BaseProcess:
    """A process that calls `target`, a function of a module; what it says goes to the file `log`.

    fork: from the server; else it is a new interpreter, which takes 3 s to import torch.
    """
    start_server()
    process_of = ForkServerProcess if fork else SpawnProcess
    process = process_of(target=_call, args=(target, arguments, log))
    process.start()
    return process


def _call(target: Callable[..., Any], arguments: tuple[Any, ...], log: Path) -> None:
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    target(*arguments)
