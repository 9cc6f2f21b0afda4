"""The reference of casts and products, against its definition in float64."""

import pytest
import torch

from kernels.linear import reference

SHAPES = [(1, 1), (1, 300), (33, 17), (130, 260)]
GRANULARITIES = ("tensorwise", "axiswise", "blockwise", "squares", "mxfp8")


def drawn(rows: int, cols: int, size: float = 1.0) -> torch.Tensor:
    made = torch.randn(rows, cols, generator=torch.Generator().manual_seed(rows + cols))
    return (made * size).bfloat16()


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_what_is_stored_is_within_the_rounding_of_fp8(
    granularity: str, rows: int, cols: int, size: float
) -> None:
    x = drawn(rows, cols, size)
    error = (reference.dequantised(*reference.cast_rows(x, granularity)) - x.float()).abs()
    amax = x.float().abs().amax()
    # half a unit of 3 bits of mantissa, subnormals of a scale; e8m0 rounds down: 448 of 512
    step = x.float().abs() / 16 + amax * 2.0**-16
    assert bool((error <= (amax / 8 if granularity == "mxfp8" else step * 1.001)).all())


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_zeros_stay_zeros_and_empty_matrices_empty(granularity: str) -> None:
    q, scale = reference.cast_rows(torch.zeros(5, 40), granularity)
    assert not q.float().any()
    assert bool(scale.float().isfinite().all())
    for shape in ((0, 40), (5, 0)):
        q, _ = reference.cast_rows(torch.zeros(shape), granularity)
        assert q.shape == shape


def test_columns_are_rows_of_the_transpose() -> None:
    x = drawn(20, 300)
    for granularity in GRANULARITIES:
        for got, wanted in zip(
            reference.cast_columns(x, granularity),
            reference.cast_rows(x.t().contiguous(), granularity),
            strict=True,
        ):
            assert torch.equal(got.float(), wanted.float())


@pytest.mark.parametrize(("of_a", "of_b"), [("axiswise", "tensorwise"), ("blockwise", "squares")])
def test_a_product_is_that_of_the_dequantised(of_a: str, of_b: str) -> None:
    a, b = reference.cast_rows(drawn(7, 300), of_a), reference.cast_rows(drawn(140, 300), of_b)
    got = reference.product(a[0], b[0], a[1], b[1])
    wanted = reference.dequantised(*a).double() @ reference.dequantised(*b).double().t()
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.double(), wanted, rtol=2.0**-8, atol=1e-3)


def test_a_sigmoid_goes_back() -> None:
    x = drawn(5, 7).float().requires_grad_()
    s = x.sigmoid()
    grad = drawn(5, 7).float()
    (wanted,) = torch.autograd.grad(s, x, grad)
    torch.testing.assert_close(reference.sigmoid_grad(grad, s.detach()), wanted)
