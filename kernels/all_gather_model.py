"""How long an all-gather with a product takes, in sequence and fused: enough to choose by.

    sequence = nccl latency + received / nccl rate + product
    fused    = start, then shard by shard: max(end of the one before, its arrival) + its product

The first shard is there at once; shard i of the others arrives after i times (copy latency + its
bytes / copy rate). A product takes its operations / rate, plus its launch. Bytes: rows, and 4 per
row where they have scales.
"""

from dataclasses import dataclass
from typing import Final

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimes:
    """What a rank receives, and how long that takes.

    The defaults are of 8 x H200 over NVLink (18 links each, no multicast), 2026-11: NCCL's
    all-gathers of 34 to 537 MB lie on 35 us + bytes received / 326 GB/s within 7 %; 360 GB/s is
    what a copy engine reaches to a peer. copy_latency_s, of a copy with its flag, and start_s, of
    what a turn does before its product begins, are guesses.
    """

    nccl_latency_s: float = 35e-6
    nccl_bytes_per_s: float = 326e9
    copy_latency_s: float = 5e-6
    copy_bytes_per_s: float = 360e9
    start_s: float = 10e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTimes:
    """What products reach: the library's of the sequence, and ours.

    The defaults are of bf16 on an H200 at its power limit: cuBLAS takes 1235 us for 16384 x 3584 x
    8192 beside seven others, 779 TFLOP/s; ours is assumed to reach 0.95 of it.
    """

    library_flops_per_s: float = 779e12
    own_flops_per_s: float = 740e12
    launch_s: float = 5e-6


# fp8 with scales per row, on an H200 at its power limit: torch._scaled_mm reaches 1337 TFLOP/s,
# ours 0.96 of it.
FP8_PRODUCT: Final = ProductTimes(library_flops_per_s=1337e12, own_flops_per_s=1284e12)
BF16_PRODUCT: Final = ProductTimes()
H200_LINK: Final = LinkTimes()


def product_times(dtype: torch.dtype) -> ProductTimes:
    """The defaults of a type."""
    return FP8_PRODUCT if dtype.itemsize == 1 else BF16_PRODUCT


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A product of what `world` ranks hold: shard_rows rows of k values each, by n columns."""

    world: int
    shard_rows: int
    k: int
    n: int
    dtype: torch.dtype

    @property
    def shard_bytes(self) -> int:
        """What one rank sends to each other."""
        scales = 4 if self.dtype.itemsize == 1 else 0
        return self.shard_rows * (self.k * self.dtype.itemsize + scales)

    @property
    def shard_flops(self) -> int:
        """Operations of one shard's product."""
        return 2 * self.shard_rows * self.k * self.n


def sequence_s(what: Gathered, link: LinkTimes, product: ProductTimes) -> float:
    """Seconds of NCCL's all-gather and then a library's product."""
    received = (what.world - 1) * what.shard_bytes
    gather = link.nccl_latency_s + received / link.nccl_bytes_per_s
    return gather + product.launch_s + what.world * what.shard_flops / product.library_flops_per_s


def fused_s(what: Gathered, link: LinkTimes, product: ProductTimes) -> float:
    """Seconds of a product that follows arrival."""
    per_shard = link.copy_latency_s + what.shard_bytes / link.copy_bytes_per_s
    multiply = what.shard_flops / product.own_flops_per_s
    end = product.launch_s
    for arrived in range(what.world):
        end = max(end, arrived * per_shard) + multiply
    return link.start_s + end


def is_fused_faster(
    what: Gathered, link: LinkTimes = H200_LINK, product: ProductTimes | None = None
) -> bool:
    """Whether the product should follow arrival; product None: the defaults of the type."""
    product = product or product_times(what.dtype)
    return fused_s(what, link, product) < sequence_s(what, link, product)
