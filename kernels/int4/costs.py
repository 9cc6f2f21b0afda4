"""What a block of kernels.int4.staged costs, so that kernels.int4.plans can compare configurations.

Fitted to the H200 of kernels.int4.configs (2026-11-21): least squares of the logarithm of the
estimate over the measured one, robust (soft L1 from 10 %), on all measured splits, plain and
chained launches together, configurations more than 30 % slower than the best of their shape at a
weight of 0.3. They rank configurations and are no prediction of time: where the memory's bandwidth
decides, estimates are up to a third too low. Where it had been measured, the choice
with constants fitted without a shape took on that shape 0.7 % longer than the best one measured
(geometric mean of 46 cases of 16 to 64 tokens; at most 6.8 %). The candidates and the bounds of
rows in INT4_TABLE were picked with all shapes in sight.
"""

from dataclasses import dataclass
from typing import Final

from kernels.int4.configs import Int4StagedConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of a block beside as many as fit: start_s apart from K, unit_s per 128 of it."""

    start_s: float
    unit_s: float


def _cost(
    block: tuple[int, int], ring: tuple[int, int], matrix: str, start_us: float, unit_us: float
) -> tuple[Int4StagedConfig, Cost]:
    """block: (rows, tokens); ring: (stages, unroll); all have four warps."""
    config = Int4StagedConfig(
        rows=block[0],
        split=1,
        num_warps=4,
        stages=ring[0],
        unroll=ring[1],
        token_tile=block[1],
        matrix=matrix,
    )
    return config, Cost(start_s=start_us * 1e-6, unit_s=unit_us * 1e-6)


HALVING_S: Final = 1.76e-6  # each time that K is cut in two
# by configuration with split=1; the rings of one unit for 32 and 64 tokens saw [3584, 8192] alone
COSTS: Final[dict[Int4StagedConfig, Cost]] = dict(
    (
        _cost((128, 8), (3, 2), "sync", 3.09, 0.370),
        _cost((64, 8), (4, 2), "sync", 2.73, 0.273),
        _cost((64, 8), (8, 1), "sync", 3.21, 0.322),
        _cost((128, 16), (3, 2), "sync", 2.37, 0.431),
        _cost((64, 16), (4, 2), "group", 3.27, 0.305),
        _cost((64, 16), (8, 1), "sync", 3.09, 0.374),
        _cost((64, 32), (2, 4), "overlapped", 3.76, 0.294),
        _cost((64, 32), (2, 2), "overlapped", 6.06, 0.337),
        _cost((64, 32), (8, 1), "group", 6.72, 0.210),
        _cost((64, 64), (2, 2), "overlapped", 4.79, 0.459),
        _cost((64, 64), (2, 4), "overlapped", 3.26, 0.306),
        _cost((64, 64), (8, 1), "group", 2.69, 0.406),
    )
)
