"""Parts of casts as plain operations, which torch.compile fuses with what computes the input.

    amax                     a reduction; fused, it costs no read of x
    cast_computed_columns    x, computed again, is cast where it is computed, not stored in between

An operator of kernels.linear.ops is opaque to torch.compile: its inputs lie in memory. These are
for x and grad_out, where a norm, an activation or a rotation has just computed them. For the same
x, what values are multiplied by differs from that of kernels.common.fp8_scales by one or two fp32
roundings. x itself may differ from the x of eager calls, because torch.compile rounds intermediate
results less often.
"""

import torch
from torch.nn import functional

from kernels.cast.tiles import Cast
from kernels.linear import ops as linear_ops
from kernels.linear import reference


def applies() -> bool:
    """Whether Dynamo traces this call: under torch.compile and a strict torch.export.

    The default export does not, since what it makes may run without fusion.
    """
    # Not is_compiling() and not is_exporting(): Dynamo of torch 2.11 takes both for true.
    return torch.compiler.is_dynamo_compiling()


def amax(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of x [rows, cols], fp32 []; 0 of no elements.

    By rows first, because a reduction along the rows fuses with a norm of them and with pointwise
    operations before it.
    """
    if x.shape[1] == 0:
        return x.new_zeros((), dtype=torch.float32)
    by_rows = x.abs().amax(1)
    # One more zero, so that any number of rows will do, known to the compiler or not.
    return functional.pad(by_rows, (0, 1)).amax().float()


def cast_computed_columns(x: torch.Tensor, amaxes: torch.Tensor, grad_out: torch.Tensor) -> Cast:
    """(q [cols, rows] e4m3, scale): x [rows, cols] cast along its columns, transposed.

    amaxes: fp32 magnitudes, [] for one scale [], or [1, cols] for a scale per column [cols, 1].
    grad_out: any gradient. It ties the cast to the backward pass, where x is computed again.
    Without it, torch.compile would take an x that it cannot compute again, such as the output of
    attention, which is saved anyway, cast it in the forward pass, and keep the cast as well.
    """
    in_backward = linear_ops.copied_after(amaxes, grad_out)
    q, scale = reference.cast_with_amax(x.float(), in_backward)
    return q.t().contiguous(), scale if scale.ndim == 0 else scale.reshape(-1, 1)
