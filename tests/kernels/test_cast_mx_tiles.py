"""The mxfp8 casts of tiles from the tensor memory unit: to the bit on Hopper, refused elsewhere."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from kernels import cast_mx_tiles, configs
from kernels.cast_blocks import mxfp8_both, mxfp8_dim1
from tests.kernels.fp8_reference import E4M3, E5M2, mx
from tests.kernels.test_cast_blocks import compare
from tests.kernels.test_cast_fp8 import drawn

SHAPES = [(80, 8), (256, 128), (272, 136), (1040, 200), (2048, 1024)]


def test_a_cpu_tensor_does_not_fit() -> None:
    assert not cast_mx_tiles.fits(torch.zeros(128, 128, dtype=torch.bfloat16))


@pytest.mark.parametrize(("columns", "bytes_wide"), [(2, 128), (4, 128), (1, 64)])
def test_the_swizzle_is_as_wide_as_a_row(columns: int, bytes_wide: int) -> None:
    how = replace(configs.TILES_MX.tile, columns_per_thread=columns)
    assert cast_mx_tiles.source_layout(how).swizzle_byte_width == bytes_wide


@pytest.mark.gpu
@pytest.mark.parametrize("walk", [(1, None), (1, 1), (2, 1)])
@pytest.mark.parametrize(("dtype", "rounding"), [(E4M3, "floor"), (E5M2, "ceil")])
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
def test_it_casts_as_the_reference_does(
    rows: int,
    cols: int,
    dtype: torch.dtype,
    rounding: Literal["floor", "ceil"],
    walk: tuple[int, int | None],
    device: torch.device,
) -> None:
    x = drawn(rows, cols, device)
    x[rows // 2, cols // 2] = float("nan")
    if not cast_mx_tiles.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    by_rows = mx(x, dtype, rounding)
    by_columns = mx(x.t().contiguous(), dtype, rounding)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TILES_MX", "TILES_MX_BOTH"):
            how = replace(getattr(configs, name), stages=walk[0], programs_per_unit=walk[1])
            patch.setattr(configs, name, how)
        compare(mxfp8_dim1(x, dtype, rounding=rounding), by_columns)
        compare(mxfp8_both(x, dtype, rounding=rounding), (*by_rows, *by_columns))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["column", "rows"])
def test_what_the_tensor_memory_unit_does_not_take_goes_another_way(
    kind: str, device: torch.device
) -> None:
    """A column whose elements lie apart, and rows that are one and the same."""
    base = drawn(128, 64, device)
    x = base[:, :1] if kind == "column" else base[:1].expand(128, 64)
    assert not cast_mx_tiles.fits(x)
    whole = x.contiguous()
    compare(mxfp8_dim1(x, E4M3, rounding="floor"), mx(whole.t().contiguous(), E4M3, "floor"))
