"""A GPU of which another kernel holds all but some multiprocessors, as a slice or a limit would."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def _hold(started, release, MOST_LOOKS: gl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    """Fill a multiprocessor with shared memory until `release` is set, or a minute has passed."""
    by_thread: gl.constexpr = gl.BlockedLayout([16], [32], [4], [0])
    ones = gl.full([131072], 1, gl.int8, by_thread)
    gl.allocate_shared_memory(gl.int8, [131072], gl.SwizzledSharedLayout(1, 1, 1, [0]), ones)
    gl.atomic_add(started, 1)
    look = 0
    while (gl.atomic_add(release, 0) == 0) & (look < MOST_LOOKS):  # a look takes 0.7 us and more
        look += 1


@contextmanager
def busy_device(free_units: int) -> Iterator[None]:
    """All but `free_units` multiprocessors of the current GPU are busy meanwhile."""
    units = torch.cuda.get_device_properties().multi_processor_count
    assert 0 < free_units < units
    started, release = torch.zeros(2, 4, dtype=torch.int32, device="cuda")
    has_started = torch.zeros(4, dtype=torch.int32).pin_memory()
    ones = torch.ones(4, dtype=torch.int32).pin_memory()
    holding = torch.cuda.Stream()
    copying = torch.cuda.Stream()  # by the copy engine, which needs no multiprocessor
    torch.cuda.synchronize()
    with torch.cuda.stream(holding):
        _hold[(units - free_units,)](started, release, MOST_LOOKS=1 << 26, num_warps=4)
    deadline = time.monotonic() + 10
    try:
        with torch.cuda.stream(copying):
            while int(has_started[0]) < units - free_units:
                assert time.monotonic() < deadline, "the kernel that holds the GPU does not start"
                has_started.copy_(started, non_blocking=True)
                copying.synchronize()
        yield
    finally:
        with torch.cuda.stream(copying):
            release.copy_(ones, non_blocking=True)
        torch.cuda.synchronize()
