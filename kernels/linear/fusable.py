"""Parts of casts as plain operations, which torch.compile fuses with what computes the input.

    amax                a reduction; fused, it costs no read of x
    cast_columns        x, computed again, is cast where it is computed and not stored in between

An operator of kernels.linear.ops is opaque to torch.compile: its inputs lie in memory. These are
for x and its gradient, which a norm, an activation or a rotation has computed just before. Fused,
they may see x before it is rounded to its type: an amax differs from that of the stored x by up to
that rounding. The arithmetic is that of kernels.common.fp8_scales.
"""

import torch

from kernels.linear import reference
from kernels.linear.reference import Cast


def applies() -> bool:
    """Whether torch.compile traces this call; what torch.export makes may run without fusion."""
    # Not is_compiling() and not is_exporting(): Dynamo of torch 2.11 takes both for true.
    return torch.compiler.is_dynamo_compiling()


def amax(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of x [rows, cols], fp32 []; 0 of no elements.

    By rows first, because a reduction along the rows fuses with a norm of them and with pointwise
    operations before it.
    """
    if not x.numel():
        return x.new_zeros((), dtype=torch.float32)
    return x.abs().amax(1).amax().float()


def cast_columns(x: torch.Tensor, amaxes: torch.Tensor) -> Cast:
    """(q [cols, rows] e4m3, scale): x [rows, cols] cast along its columns, transposed.

    amaxes: fp32 magnitudes, [] for one scale [], or [1, cols] for a scale per column [cols, 1].
    """
    q, scale = reference.cast_with_amax(x.float(), amaxes)
    return q.t().contiguous(), scale if scale.ndim == 0 else scale.reshape(-1, 1)
