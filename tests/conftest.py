"""Settings of all tests: what to skip without a GPU, how hypothesis searches."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.exhaustive import mark_all_but_every_nth

# No deadline: a shared CI machine is slow at times, and no test here is about time.
settings.register_profile("roofcal", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "roofcal")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not Path("/dev/nvidiactl").exists():  # kernels are slow in the interpreter alone
        mark_all_but_every_nth(items)
    marked = [item for item in items if "gpu" in item.keywords]
    if not marked or _gpu_found():
        return
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def _gpu_found() -> bool:
    import torch

    return torch.cuda.is_available()
