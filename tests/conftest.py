"""Settings of all tests: what to skip without a GPU, how hypothesis searches."""

import os

import pytest
from hypothesis import settings

# No deadline: a shared CI machine is slow at times, and no test here is about time.
settings.register_profile("roofcal", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "roofcal")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if "gpu" in item.keywords]
    if not marked or _gpu_found():
        return
    for item in marked:
        item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def _gpu_found() -> bool:
    import torch

    return torch.cuda.is_available()
