"""An all-gather by the group's own library, in place, and then a library's product."""

from typing import Final

import torch
from torch import distributed
from torch.distributed.distributed_c10d import _coalescing_manager

from kernels.gemm.axiswise import gemm

_LIBRARY_COLUMNS: Final = 16  # torch._scaled_mm refuses weights of another multiple on GPUs


class GatheredRows:
    """A buffer with a slot of rows per rank: calls gather all slots in place and multiply them.

    The views that a call needs are made once: an eager call costs the host no more than the two
    calls of a library that it consists of.
    """

    def __init__(
        self, group: distributed.ProcessGroup, rows: torch.Tensor, scales: torch.Tensor | None
    ) -> None:
        """Take rows [world * shard, k] and, of fp8 rows, scales [world * shard] fp32."""
        self._group, self._rows = group, rows
        self._row_scales = None if scales is None else scales[:, None]
        gathered = [rows.view(torch.uint8)]  # NCCL knows no fp8
        if scales is not None:
            gathered.append(scales)
        self._slots = [(x, x.chunk(group.size())[group.rank()]) for x in gathered]

    def multiplied(self, weights: torch.Tensor, column_scales: torch.Tensor | None) -> torch.Tensor:
        """C [world * shard, n] bf16 of weights [n, k] and their scales [1, n]; collective.

        fp8 weights of columns that the library refuses are multiplied by kernels.gemm.axiswise.
        """
        self._gather()
        if self._row_scales is None or column_scales is None:
            c = torch.mm(self._rows, weights.t())
            return c if c.dtype == torch.bfloat16 else c.to(torch.bfloat16)
        if weights.shape[0] % _LIBRARY_COLUMNS:
            return gemm(self._rows, weights, self._row_scales, column_scales)
        return torch._scaled_mm(
            self._rows,
            weights.t(),
            scale_a=self._row_scales,
            scale_b=column_scales,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    def _gather(self) -> None:
        """Fill the slots of all ranks; NCCL starts once for rows and scales."""
        if len(self._slots) > 1 and self._rows.is_cuda:
            with _coalescing_manager(group=self._group, device=self._rows.device):
                self._gather_slots()
        else:
            self._gather_slots()

    def _gather_slots(self) -> None:
        for whole, own in self._slots:
            distributed.all_gather_into_tensor(whole, own, group=self._group)
