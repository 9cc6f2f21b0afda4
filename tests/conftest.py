"""Settings of all tests: what to skip without a GPU, how hypothesis searches."""

import gc
import os
import sys
from pathlib import Path

# Before anything imports torch: on two cores, threads of three test processes wait for each other.
# The tests of linear layers, of the worker and of `time` take 89 s so, and took 152 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.exhaustive import mark_all_but_every_nth

# No deadline, and slowness is no finding: a shared CI machine is slow at times, and no test here is
# about time.
SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("roofcal", deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("ci", deadline=None, suppress_health_check=SLOW_IS_FINE, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "roofcal")

_FORKING_ROOMS = {"trial", "workflow", "measure"}


def pytest_collection() -> None:
    # A fifth of the CPU of collecting goes into looking for garbage among what is imported.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected stays, and need not be looked through again
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # What waits longest first: at the end one process would run it and the others wait. Side by
    # side, it stays with one process of pytest-xdist, so that one server imports Snakemake and
    # Inductor for it (tests/forked.py), 5 s of CPU, and not three.
    items.sort(key=lambda item: _FORKING_ROOMS.isdisjoint(item.path.parts))
    items.sort(key=lambda item: "trial" not in item.path.parts)
    if not Path("/dev/nvidiactl").exists():  # kernels are slow in the interpreter alone
        mark_all_but_every_nth(items)
    marked = [item for item in items if "gpu" in item.keywords]
    if not marked or _gpu_found():
        return
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="needs a GPU"))


@pytest.fixture(autouse=True)
def _same_random_numbers_in_any_order() -> None:
    """pytest-xdist hands tests out by speed: without a seed, data would go with the load."""
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.default_generator.manual_seed(0)
        # torch.manual_seed would keep the seed, with a stack of 2 ms, for a GPU that never comes.
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


def _gpu_found() -> bool:
    import torch

    return torch.cuda.is_available()
