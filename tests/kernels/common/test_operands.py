"""What is refused before anything runs; descriptors, keys of kernels in Triton's cache, scales.

The order of tiles and the device functions are tested through products and casts.
"""

import inspect
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.compiler.compiler import ASTSource

from kernels.cast.tensorwise import tensorwise
from kernels.common.checks import (
    check_device,
    check_matrix,
    check_scale_values,
    largest_fp8_value,
)
from kernels.common.fp8_scales import LARGEST, in_aligned_columns, new_block_scales
from kernels.common.tiles import KernelConstants, tile_descriptor
from tests.kernels.on_gpus import OnGpu, TensorOnGpu1


def test_a_row_or_column_of_any_stride_is_a_matrix(device: torch.device) -> None:
    check_matrix(torch.zeros(8, 8, device=device)[:, :1])
    check_matrix(torch.zeros(8, 8, device=device)[:1])
    check_matrix(torch.zeros(0, 8, device=device))


def test_gaps_in_a_row_are_refused_with_the_way_out(device: torch.device) -> None:
    with pytest.raises(ValueError, match=r"got strides \(8, 2\) .* make it contiguous"):
        check_matrix(torch.zeros(8, 8, device=device)[:, ::2])


class OnGpu1(TensorOnGpu1):
    """One that is compared with where others lie."""

    device = torch.device("cuda:1")


def test_a_tensor_on_the_cpu_is_refused_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.zeros(16, 16)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ValueError, match=r"^w: wanted a tensor on the GPU, got one on cpu"):
        check_device("w", x)
    check_matrix(x.as_subclass(OnGpu1))


def test_values_on_a_gpu_are_read_only_by_who_waits() -> None:
    scale = torch.tensor([1.0, float("nan")]).as_subclass(OnGpu1)
    check_scale_values("scale", scale, wait=False)
    with pytest.raises(ValueError, match=r"^scale: wanted finite .*, got nan at index \[1\] of"):
        check_scale_values("scale", scale, wait=True)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 0.0, -0.5])
def test_a_given_scale_is_refused_by_its_value(wrong: float, device: torch.device) -> None:
    x, scale = torch.zeros(2, 2, device=device), torch.tensor(wrong, device=device)
    with pytest.raises(ValueError, match=rf"^scale: wanted finite .*, got {wrong} at index \[\]"):
        tensorwise(x, scale=scale, check_values=True)


def test_a_gpu_without_e4m3_is_named(monkeypatch: pytest.MonkeyPatch, device: torch.device) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    monkeypatch.setattr(torch.version, "hip", None)
    x: Any = OnGpu()
    with pytest.raises(ValueError, match=r"wanted float8_e5m2, got float8_e4m3fn.* 8\.0 lacks"):
        largest_fp8_value(torch.float8_e4m3fn, x)
    assert largest_fp8_value(torch.float8_e5m2, x) == 57344.0


@dataclass(frozen=True, slots=True)
class Tile(KernelConstants):
    warps: int

    @property
    def rows(self) -> int:
        return 32 * self.warps


def key_on_disk(constant: Any) -> str:
    """The key of a kernel that is compiled for this constant."""
    kernel = SimpleNamespace(__name__="kernel", cache_key="source", arg_names=["CONFIG"])
    return str(ASTSource(kernel, {"CONFIG": "constexpr"}, {"CONFIG": constant}).hash())


def test_a_kernel_is_compiled_again_for_other_values_alone() -> None:
    assert key_on_disk(Tile(4)) == key_on_disk(Tile(4))
    assert key_on_disk(Tile(4)) != key_on_disk(Tile(8))


def test_a_kernel_is_compiled_again_after_a_property_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = key_on_disk(Tile(4))
    assert "return 32 * self.warps" in Tile(4).cache_key
    changed = Tile(4).cache_key.partition("\n")[2].replace("32", "64")
    monkeypatch.setattr(inspect, "getsource", lambda _: changed)
    assert key_on_disk(Tile(4)) != before


def test_the_stride_of_a_single_row_means_nothing(device: torch.device) -> None:
    row = torch.zeros(5, 40, device=device).to(torch.float8_e4m3fn)[:1, :32]
    assert tile_descriptor(row, [16, 16]).strides == [32, 1]


def test_the_largest_values_are_those_of_the_types() -> None:
    for dtype, largest in LARGEST.items():
        assert largest == torch.finfo(dtype).max


def test_scales_of_blocks_lie_transposed_in_columns_of_16_bytes(device: torch.device) -> None:
    scales = new_block_scales(10, 3, device)
    assert (scales.shape, scales.stride(), scales.dtype) == ((10, 3), (1, 12), torch.float32)
    assert in_aligned_columns(scales) is scales


@pytest.mark.parametrize(
    ("steps", "rows", "aligned"), [(3, 8, True), (3, 12, True), (3, 10, False), (1, 10, True)]
)
def test_scales_that_do_not_lie_in_aligned_columns_are_copied_there(
    steps: int, rows: int, aligned: bool, device: torch.device
) -> None:
    scales = torch.rand(steps, rows, device=device).t()
    in_rows = scales.contiguous()  # those of one step lie in a column, too
    for given, is_kept in ((scales, aligned), (in_rows, steps == 1), (scales[1:], False)):
        laid = in_aligned_columns(given)
        assert (laid is given) == is_kept
        assert in_aligned_columns(laid) is laid
        assert torch.equal(laid, given)
