"""The transposing cast without a transpose in shared memory: Gluon, NVIDIA GPUs from Hopper on.

    q[n, m] = x[m, n] / scale[n]

A thread holds 32 rows x C columns of x, loaded along the rows. Seen from the transposed side, those
are C rows of 32 neighbouring elements: permuting the tile only renames registers, and pairs of rows
are packed to fp8 in place. The tile leaves through swizzled shared memory (16-byte stores) and the
tensor memory unit, which writes runs of 32 * warps bytes and clips what lies outside. fp32 -> fp8
saturates in hardware (cvt.rn.satfinite), so nothing is clamped.

Triton's interpreter knows no Gluon: kernels.cast.columns has the same cast in plain Triton.
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from kernels.common import configs

_FLOOR: gl.constexpr = gl.constexpr(0x2B8CBCCC)  # 1e-12 in fp32, as bits
_INFINITY: gl.constexpr = gl.constexpr(0x7F800000)
_MOST_STRIDE = 1 << 22  # offsets within a tile are 32 bit


@gluon.jit
def tile_of(tile, ROWS, COLS, BLOCK_M: gl.constexpr, BLOCK_N: gl.constexpr, GROUP: gl.constexpr):
    """(row, column) tile: down GROUP tiles, then to the right, so that runs of q are neighbours."""
    down = gl.cdiv(ROWS, BLOCK_M)
    across = gl.cdiv(COLS, BLOCK_N)
    if GROUP == 1:  # without the divisions by a height that the compiler does not know
        return tile // across, tile % across
    else:  # noqa: RET505 (both branches are traced without it)
        first = tile // (GROUP * across) * GROUP
        height = gl.minimum(down - first, GROUP)
        inside = tile % (GROUP * across)
        return first + inside % height, inside // height


@gluon.jit
def store_transposed(values, target, row, col, C: gl.constexpr, num_warps: gl.constexpr):
    """values [BLOCK_M, BLOCK_N] fp32, already scaled -> target [COLS, ROWS] fp8 at (col, row)."""
    LT: gl.constexpr = gl.BlockedLayout([C, 32], [32, 1], [1, num_warps], [1, 0])
    turned = gl.convert_layout(gl.permute(values, (1, 0)), LT, assert_trivial=True)
    shared = gl.allocate_shared_memory(target.dtype, target.block_type.shape, target.layout)
    shared.store(turned.to(target.dtype))
    fence_async_shared()
    gl.thread_barrier()
    tma.async_copy_shared_to_global(target, [col, row], shared)
    tma.store_wait(0)


@gluon.jit
def _scale(bits, LARGEST: gl.constexpr, POWER_OF_TWO: gl.constexpr):
    """The scale of kernels.common.fp8_scales.scale_and_factor."""
    amax = gl.maximum(bits, _FLOOR).to(gl.float32, bitcast=True)
    scale = gl.div_rn(amax, gl.full_like(amax, LARGEST))
    if POWER_OF_TWO:
        exponent = scale.to(gl.int32, bitcast=True)
        above = (exponent + 0x7FFFFF) & _INFINITY
        scale = gl.where(exponent < _INFINITY, above, exponent).to(gl.float32, bitcast=True)
    return scale


@gluon.jit
def _factor(bits, LARGEST: gl.constexpr, POWER_OF_TWO: gl.constexpr):
    """The factor of kernels.common.fp8_scales.scale_and_factor."""
    if POWER_OF_TWO:
        scale = _scale(bits, LARGEST, True)
        return gl.div_rn(gl.full_like(scale, 1.0), scale)
    else:  # noqa: RET505 (both branches are traced without it)
        amax = gl.maximum(bits, _FLOOR).to(gl.float32, bitcast=True)
        return gl.div_rn(gl.full_like(amax, LARGEST), amax)


@gluon.jit
def _transpose_kernel(
    x,
    target,
    scale,
    largest,
    ROWS,
    COLS,
    STRIDE,
    LARGEST: gl.constexpr,
    POWER_OF_TWO: gl.constexpr,
    PARTIALS: gl.constexpr,
    EVEN: gl.constexpr,
    C: gl.constexpr,
    GROUP: gl.constexpr,
    num_warps: gl.constexpr,
):
    """One tile per program, the last rows first. EVEN: no tile reaches beyond the matrix."""
    BLOCK_M: gl.constexpr = 32 * num_warps
    BLOCK_N: gl.constexpr = 32 * C
    L: gl.constexpr = gl.BlockedLayout([32, C], [1, 32], [num_warps, 1], [1, 0])
    tile = gl.num_programs(0) - 1 - gl.program_id(0)
    down, right = tile_of(tile, ROWS, COLS, BLOCK_M, BLOCK_N, GROUP)
    m = gl.arange(0, BLOCK_M, gl.SliceLayout(1, L))
    n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, L))
    row, col = down * BLOCK_M, right * BLOCK_N
    source = x + (row.to(gl.int64) * STRIDE + col) + (m[:, None] * STRIDE + n[None, :])
    bits = gl.load(largest + col + n, mask=n < COLS - col, other=0)
    for partial in gl.static_range(1, PARTIALS):
        found = gl.load(largest + partial * COLS + col + n, mask=n < COLS - col, other=0)
        bits = gl.maximum(bits, found)
    # Before the loads: a division branches, and loads ahead of a branch hold their registers.
    factor = _factor(bits, LARGEST, POWER_OF_TWO)
    if EVEN:
        values = gl.load(source, eviction_policy="evict_first")
    else:
        inside = (m < ROWS - row)[:, None] & (n < COLS - col)[None, :]
        values = gl.load(source, mask=inside, other=0.0, eviction_policy="evict_first")
    store_transposed(values.to(gl.float32) * factor[None, :], target, row, col, C, num_warps)
    if down == 0:
        made = _scale(bits, LARGEST, POWER_OF_TWO)
        gl.store(scale + col + n, made, mask=n < COLS - col)


def fits(x: torch.Tensor) -> bool:
    """Whether this GPU and the shape of x allow it: rows of q are multiples of 16 bytes."""
    if not x.is_cuda or torch.version.hip is not None:
        return False
    hopper = torch.cuda.get_device_capability(x.device) >= (9, 0)
    return hopper and x.shape[0] % 16 == 0 and x.stride(0) < _MOST_STRIDE


def transpose(
    x: torch.Tensor,
    q: torch.Tensor,
    scale: torch.Tensor,
    largest: torch.Tensor,
    largest_value: float,
    power_of_two: bool,
) -> None:
    """Fill q [cols, rows], scale [cols, 1] from the columns' maxima [partials, cols], as bits."""
    rows, cols = x.shape
    how = configs.HOPPER_TRANSPOSE
    block_m, block_n = 32 * how.num_warps, 32 * how.columns_per_thread
    _transpose_kernel[(triton.cdiv(rows, block_m) * triton.cdiv(cols, block_n),)](
        *(x, tiles_of(q, how), scale, largest, rows, cols, x.stride(0)),
        LARGEST=largest_value,
        POWER_OF_TWO=power_of_two,
        PARTIALS=largest.shape[0],
        EVEN=rows % block_m == 0 and cols % block_n == 0,
        C=how.columns_per_thread,
        GROUP=how.group,
        num_warps=how.num_warps,
    )


def tiles_of(q: torch.Tensor, how: configs.HopperConfig) -> TensorDescriptor:
    """The descriptor through which tiles of q [cols, rows] are stored."""
    block = [32 * how.columns_per_thread, 32 * how.num_warps]
    return TensorDescriptor.from_tensor(q, block, tile_layout(how.num_warps))


def tile_layout(num_warps: int) -> gl.NVMMASharedLayout:
    """Bytes of a tile in shared memory: runs of 32 * warps bytes, swizzled as wide as they are."""
    return gl.NVMMASharedLayout(min(128, 32 * num_warps), 8, 2)
