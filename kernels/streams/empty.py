"""A kernel that does nothing: what a launch costs."""

import triton


@triton.jit
def _empty_kernel():
    """Return at once."""


def empty(programs: int) -> None:
    """Launch `programs` programs that do nothing; raises ValueError for fewer than one."""
    if programs < 1:
        raise ValueError(f"needs at least one program, got {programs}")
    _empty_kernel[(programs,)](num_warps=4)
