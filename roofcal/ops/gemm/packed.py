"""The calibrated equation of a matrix product on a processor. How it came about: docs/models.md.

    t      = launch + side * (M + N) + min(packed, direct)
    packed = flops / (units * tile_flops) + C's bytes / update
             + (A's bytes / pack_a + B's bytes / pack_b + both / pack) * slower
    direct = flops / direct_flops + B's bytes / dram * slower
    slower = 1 + far * max(0, 1 - near / B's bytes)

packed  a library copies the operands into panels, in the order in which its kernel reads them, and
        multiplies panels (Goto & van de Geijn, ACM TOMS 34, 2008). Copying and multiplying take
        turns, so their times add. Their rates are fitted, where the analytical model of BLIS (Low
        et al., ACM TOMS 43, 2016) derives them from caches and registers: these are not known of a
        processor behind a hypervisor, and oneDNN and MKL choose among kernels by rules of their own
direct  few rows are multiplied straight from B, because a copy costs more than it saves
side    what begins anew with every row and column, such as a panel
slower  copies of large weights leave the caches between the steps of a product
emulated products (fp8) convert both operands to fp32: pack and dram are then the rates of that

Bytes are those of the operands as they are stored. Families differ in the constants they have.
"""

from collections.abc import Mapping

import numpy as np

from roofcal.core.recipes import GEMM_RECIPES, nbytes
from roofcal.core.times import Array, Value
from roofcal.ops.gemm.model import NEUTRAL, Parts


def packed_parts(
    constants: Mapping[str, Value],
    recipe: str,
    sizes: tuple[Array, Array, Array],
    compute_units: int,
) -> Parts:
    """Seconds of products of sizes (m, n, k), float64 vectors, on so many cores: [..., shapes].

    A constant is a number, or an array that broadcasts with the vectors. Raises KeyError for a
    missing constant that is not in NEUTRAL.
    """
    c = NEUTRAL | dict(constants)
    m, n, k = sizes
    spec = GEMM_RECIPES[recipe]
    a_bytes, b_bytes = spec.a.nbytes(m, k), spec.b.nbytes(n, k)
    flops = 2 * m * n * k
    slower = 1 + c["far"] * np.maximum(0.0, 1 - c["near_bytes"] / b_bytes)
    copying = (
        a_bytes / c["pack_a_bytes_per_s"]
        + b_bytes / c["pack_b_bytes_per_s"]
        + (a_bytes + b_bytes) / c["pack_bytes_per_s"]
    ) * slower
    multiplying = flops / (compute_units * c["tile_flops_per_s"])
    storing = nbytes(spec.out, m * n) / c["update_bytes_per_s"]
    reading = b_bytes / c["dram_bytes_per_s"] * slower
    unpacked = flops / c["direct_flops_per_s"]
    is_direct = reading + unpacked < copying + multiplying + storing
    tiles = np.where(is_direct, unpacked, multiplying)
    dram = np.where(is_direct, reading, copying + storing)
    launch = c["launch_s"] + c["side_s"] * (m + n) + np.zeros_like(tiles)
    return Parts(
        launch=launch,
        tiles=tiles,
        sums=np.zeros_like(tiles),
        dram=dram,
        power=np.zeros_like(tiles),
        total=launch + tiles + dram,
    )
