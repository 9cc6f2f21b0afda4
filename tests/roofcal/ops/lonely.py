"""A process group of one rank, for tests of ops that run on several devices."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import distributed
from torch._C._distributed_c10d import FileStore


@contextmanager
def lonely_group(folder: Path) -> Iterator[None]:
    """The default process group for a with block; all its collectives copy."""
    store = FileStore(str(folder / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()
