"""Streams over fp32 memory: the bandwidth that every memory-bound kernel is compared with.

    read_sum   total = sum_i src[i]            4 B/element read, one fp32 per program written
    fill       dst[i] = value                  4 B/element written
    copy       dst[i] = src[i]                 4 B/element read, 4 B/element written

Shapes: src, dst [COUNT] fp32, contiguous. Offsets are 64 bit.
"""

from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl

from kernels.common.architecture import compute_units, units_limit
from kernels.common.operators import operator


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How a stream is cut into programs.

    block              elements a program handles per step
    programs_per_unit  persistent programs per multiprocessor; None: one program per block
    """

    block: int
    num_warps: int
    programs_per_unit: int | None = None


# On an H200 (4 GiB): read 4.43 TB/s, write 4.65 TB/s.
READ: Final = StreamConfig(block=4096, num_warps=8, programs_per_unit=16)
FILL: Final = StreamConfig(block=4096, num_warps=8)
# One 16-byte load and store per thread: 4.28 TB/s at 4 GiB on an H200, torch's own copy 4.30; four
# per thread (block 4096) reach 4.10, persistent programs less.
COPY: Final = StreamConfig(block=1024, num_warps=8)


@triton.jit
def _read_sum_kernel(src, partial, COUNT, BLOCK: tl.constexpr):
    """Each program sums every num_programs-th block; a fixed order, so the sum is reproducible."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    lanes = tl.arange(0, BLOCK)
    # A COUNT below 2^31 comes as 32 bits, which the next multiple of BLOCK may not fit into.
    blocks = tl.cdiv(tl.cast(COUNT, tl.int64), BLOCK)
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        offsets = block * BLOCK + lanes
        total += tl.load(src + offsets, mask=offsets < COUNT, other=0.0)
    tl.store(partial + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def _fill_kernel(dst, value, COUNT, BLOCK: tl.constexpr):
    """One program, one block."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst + offsets, tl.full((BLOCK,), value, tl.float32), mask=offsets < COUNT)


@triton.jit
def _copy_kernel(src, dst, COUNT, BLOCK: tl.constexpr):
    """One program, one block."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < COUNT
    tl.store(dst + offsets, tl.load(src + offsets, mask=inside), mask=inside)


def read_sum(src: torch.Tensor, *, units: int | None = None) -> torch.Tensor:
    """Partial sums of src [COUNT] fp32; their sum is the sum of src.

    units: as of kernels.common.architecture.compute_units. Raises ValueError for that, or unless
    src is a contiguous fp32 vector.
    """
    # The limit decides how many sums there are, so a compiled graph has to know it.
    return _read_sum(src, units=units_limit() if units is None else units)


def _read_programs(src: torch.Tensor, units: int | None) -> int:
    blocks = triton.cdiv(src.numel(), READ.block)
    return max(1, min(blocks, (READ.programs_per_unit or blocks) * compute_units(src, units)))


@operator(
    lambda src, *, units=None: src.new_empty(_read_programs(src, units)),
    name="read_sum",
    replays=False,
)
def _read_sum(src: torch.Tensor, *, units: int | None) -> torch.Tensor:
    _check_vector(src)
    programs = _read_programs(src, units)
    partial = torch.empty(programs, dtype=torch.float32, device=src.device)
    _read_sum_kernel[(programs,)](
        src, partial, src.numel(), BLOCK=READ.block, num_warps=READ.num_warps
    )
    return partial


@operator(writes="dst", replays=False)
def fill(dst: torch.Tensor, value: float) -> torch.Tensor:
    """Write `value` to every element of dst [COUNT] fp32, and return dst; raises as read_sum."""
    _check_vector(dst)
    if dst.numel():
        grid = (triton.cdiv(dst.numel(), FILL.block),)
        _fill_kernel[grid](dst, value, dst.numel(), BLOCK=FILL.block, num_warps=FILL.num_warps)
    return dst


@operator(writes="dst", replays=False)
def copy(src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """Copy src [COUNT] to dst [COUNT], both fp32, and return dst.

    Raises ValueError as read_sum does, or if the lengths or devices differ.
    """
    _check_vector(src)
    _check_vector(dst)
    if src.numel() != dst.numel():
        raise ValueError(f"copy needs equal lengths, got {src.numel()} and {dst.numel()}")
    if src.device != dst.device:
        raise ValueError(f"copy needs one device, got {src.device} and {dst.device}")
    if src.numel():
        grid = (triton.cdiv(src.numel(), COPY.block),)
        _copy_kernel[grid](src, dst, src.numel(), BLOCK=COPY.block, num_warps=COPY.num_warps)
    return dst


def _check_vector(x: torch.Tensor) -> None:
    if x.dtype != torch.float32 or x.ndim != 1 or not x.is_contiguous():
        raise ValueError(f"needs a contiguous fp32 vector, got {x.dtype} {tuple(x.shape)}")
