"""The transposing casts for Hopper: to the bit on such a GPU, refused elsewhere; their tiles."""

from dataclasses import replace
from types import ModuleType

import pytest
import torch

from kernels.cast.hopper import columns, mx
from kernels.cast.hopper.tiles import TileConfig
from kernels.common.architecture import has_tensor_memory_unit
from tests.kernels.cast.fp8_reference import (
    E4M3,
    E5M2,
    normal_matrix,
)
from tests.kernels.cast.test_every_cast import check

TILE = TileConfig(columns_per_thread=4, num_warps=8, group=1)


@pytest.mark.parametrize(("warps", "bytes_wide"), [(1, 32), (2, 64), (4, 128), (8, 128)])
def test_a_tile_is_swizzled_as_wide_as_its_runs(warps: int, bytes_wide: int) -> None:
    assert replace(TILE, num_warps=warps).transposed_layout.swizzle_byte_width == bytes_wide


@pytest.mark.parametrize(("columns", "bytes_wide"), [(2, 128), (4, 128), (1, 64)])
def test_the_swizzle_of_the_source_is_as_wide_as_a_row(columns: int, bytes_wide: int) -> None:
    config = replace(TILE, columns_per_thread=columns)
    assert config.source_layout.swizzle_byte_width == bytes_wide


@pytest.mark.parametrize("wrong", [{"columns_per_thread": 3}, {"num_warps": 3}])
def test_a_thread_and_a_block_hold_powers_of_two(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        replace(TILE, **wrong)


@pytest.mark.parametrize(
    ("shape", "programs", "even"),
    [((512, 256), 4, True), ((512, 250), 4, False), ((1, 1), 1, False)],
)
def test_a_program_per_tile(shape: tuple[int, int], programs: int, even: bool) -> None:
    x = torch.empty(shape, device="meta")
    assert TILE.grid(x) == (programs,)
    assert TILE.constants(x)["EVEN"] == even


@pytest.mark.parametrize("kernel", [columns, mx])
def test_a_cpu_tensor_does_not_fit(kernel: ModuleType) -> None:
    assert not kernel.fits(torch.zeros(128, 128, dtype=torch.bfloat16))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(16, 1), (256, 128), (272, 130), (1024, 777)])
def test_columns_are_cast_as_torch_does(
    shape: tuple[int, int], source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> None:
    x = normal_matrix(*shape, device).to(source)
    if not columns.fits(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    check("columns", x, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("rounding", ["floor", "ceil"])
@pytest.mark.parametrize(
    ("shape", "source", "fits"),
    [
        *[(shape, torch.bfloat16, True) for shape in ((80, 8), (272, 136), (1040, 200))],
        *[(shape, torch.bfloat16, True) for shape in ((256, 128), (2048, 1024))],
        # rows that begin anywhere, and other types
        *[(shape, torch.bfloat16, False) for shape in ((16, 1), (272, 130), (1024, 777))],
        *[(shape, torch.float32, False) for shape in ((272, 136), (1024, 777), (2048, 1024))],
        ((272, 136), torch.float16, False),
    ],
)
def test_mx_is_cast_as_the_reference_does(
    shape: tuple[int, int],
    source: torch.dtype,
    fits: bool,
    rounding: str,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    x = normal_matrix(*shape, device).to(source)
    x[shape[0] // 2, shape[1] // 2] = float("nan")
    if not has_tensor_memory_unit(x):
        pytest.skip("needs a GPU of compute capability 9.0 or later")
    assert mx.fits(x) == fits
    for way in ("down", "both ways"):
        check(f"mx {rounding} {way}", x, dtype)


def odd_matrix(kind: str, device: torch.device) -> torch.Tensor:
    """A column of rows that begin at multiples of 16 bytes or not, or rows that are the same."""
    if kind == "same rows":
        return normal_matrix(1, 64, device).expand(128, 64)
    return normal_matrix(128, 64 if kind == "aligned column" else 65, device)[:, :1]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("kind", "fits"), [("aligned column", True), ("odd column", False), ("same rows", False)]
)
def test_strides_that_the_tensor_memory_unit_does_not_take_go_another_way(
    kind: str, fits: bool, device: torch.device
) -> None:
    """Rows 128 bytes apart are for it; rows 130 or no bytes apart are not."""
    x = odd_matrix(kind, device)
    assert mx.fits(x) == (fits and has_tensor_memory_unit(x))
    for way in ("down", "both ways"):
        check(f"mx floor {way}", x)
