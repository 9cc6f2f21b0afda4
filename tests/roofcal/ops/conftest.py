from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import distributed
from torch._C._distributed_c10d import FileStore

from tests.roofcal.measure.runs import Run, rig


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[None]:
    """The default process group with this process alone; all its collectives copy."""
    store = FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run folder, in which real workers measure on this CPU."""
    return rig(monkeypatch, tmp_path)
