"""An all-gather by the group's own library, in place, and then a library's product."""

from typing import Final

import torch
from torch import distributed
from torch.distributed.distributed_c10d import _coalescing_manager

from kernels.gemm.axiswise import gemm

_LIBRARY_COLUMNS: Final = 16  # torch._scaled_mm refuses weights of another multiple on GPUs


def gather_and_multiply(
    group: distributed.ProcessGroup,
    rows: torch.Tensor,
    weights: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """C [world * shard, n] bf16 of rows [world * shard, k], each rank's in its slot; collective.

    scales: of the rows, each rank's in its slot, gathered too, and of the columns [1, n]. fp8
    weights of columns that the library refuses are multiplied by kernels.gemm.axiswise.
    """
    _gather(group, rows.view(torch.uint8), *(scales[:1] if scales else ()))  # NCCL knows no fp8
    if scales is None:
        return torch.mm(rows, weights.t()).to(torch.bfloat16)
    if weights.shape[0] % _LIBRARY_COLUMNS:
        return gemm(rows, weights, scales[0][:, None], scales[1])
    return torch._scaled_mm(
        rows,
        weights.t(),
        scale_a=scales[0][:, None],
        scale_b=scales[1],
        out_dtype=torch.bfloat16,
        use_fast_accum=True,
    )


def _gather(group: distributed.ProcessGroup, *slots: torch.Tensor) -> None:
    """Fill the slots of all ranks; NCCL starts once for all tensors."""
    if len(slots) > 1 and slots[0].is_cuda:
        with _coalescing_manager(group=group, device=slots[0].device):
            for x in slots:
                _gather_one(group, x)
        return
    for x in slots:
        _gather_one(group, x)


def _gather_one(group: distributed.ProcessGroup, x: torch.Tensor) -> None:
    own = x.chunk(group.size())[group.rank()]
    distributed.all_gather_into_tensor(x, own, group=group)
