"""Casts on the CPU: right on ragged, huge, tiny and zero inputs, and wrong ones show."""

import pytest
import torch

from roofcal.ops.cast import bench
from roofcal.ops.cast.spec import OP

SHAPES = [(64, 64), (1, 100), (100, 1), (33, 77), (130, 259)]


def cast_by_torch(recipe: str, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    shape = {"rows": x.shape[0], "cols": x.shape[1]}
    outputs: tuple[torch.Tensor, ...] = bench.build("torch_eager", recipe, shape)({"x": x})
    return outputs


@pytest.mark.parametrize("recipe", OP.recipes)
@pytest.mark.parametrize(
    ("rows", "cols", "size"), [*((*shape, 1.0) for shape in SHAPES), (33, 77, 1e-6), (33, 77, 1e6)]
)
def test_a_cast_is_right(recipe: str, rows: int, cols: int, size: float) -> None:
    x = (torch.randn(rows, cols) * size).to(torch.bfloat16)
    error = bench.relative_error(recipe, {"x": x}, cast_by_torch(recipe, x))
    assert error <= bench.tolerance(recipe)


def test_scales_of_blocks_are_of_blocks_and_lie_as_products_read_them() -> None:
    x = torch.zeros(130, 300).to(torch.bfloat16)
    x[0, 0], x[129, 129], x[5, 299] = 448, 896, 224
    q, scale = cast_by_torch("fp8_blockwise_1x128", x)
    assert (q.shape, scale.shape, scale.stride(0)) == ((130, 300), (130, 3), 1)
    assert [float(scale[0, 0]), float(scale[129, 1]), float(scale[5, 2])] == [1.0, 2.0, 0.5]
    q, scale = cast_by_torch("fp8_blockwise_1x128_dim1", x)
    assert (q.shape, scale.shape, scale.stride(0)) == ((300, 130), (300, 2), 1)
    assert [float(scale[0, 0]), float(scale[129, 1]), float(scale[299, 0])] == [1.0, 2.0, 0.5]
    q, scale = cast_by_torch("fp8_blockwise_128x128", x)
    assert (q.shape, scale.shape) == ((130, 300), (2, 3))
    assert [float(scale[0, 0]), float(scale[1, 1]), float(scale[0, 2])] == [1.0, 2.0, 0.5]
    assert q[129, 129].float() == 448


def test_a_wrong_square_is_caught_beyond_the_first_rows() -> None:
    x = torch.randn(2200, 130).to(torch.bfloat16)
    q, scale = (part.clone() for part in cast_by_torch("fp8_blockwise_128x128", x))
    assert bench.relative_error("fp8_blockwise_128x128", {"x": x}, (q, scale)) <= 1e-2
    scale[17] = scale[17].roll(1)
    assert not bench.relative_error("fp8_blockwise_128x128", {"x": x}, (q, scale)) <= 1e-2


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", OP.recipes)
@pytest.mark.parametrize(("rows", "cols"), [*SHAPES, (1024, 2048)])
def test_the_kernels_pass_the_gate_on_a_gpu(recipe: str, rows: int, cols: int) -> None:
    x = torch.randn(rows, cols, device="cuda").to(torch.bfloat16)
    outputs = bench.build("triton", recipe, {"rows": rows, "cols": cols})({"x": x})
    assert bench.relative_error(recipe, {"x": x}, outputs) <= bench.tolerance(recipe)
