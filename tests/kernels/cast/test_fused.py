"""Casts behind norms and activations, against float64, in the interpreter or on the GPU."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from kernels.cast import fused
from kernels.cast.blocks import blockwise_1x128, blockwise_1x128_dim1, mxfp8_dim0, mxfp8_dim1
from kernels.cast.columns import rowwise_dim1
from kernels.cast.rows import rowwise_dim0
from tests.kernels.cast.fp8_reference import (
    E4M3,
    E5M2,
    assert_all_equal,
    assert_equal,
    assert_read_by_products,
    normal_matrix,
)

SHAPES = [(1, 1), (1, 100), (40, 1), (33, 17), (6, 300)]
OPS = ("rms_norm", "layer_norm", "silu_mul", "sigmoid_grad")
CASTS: dict[str, Any] = {
    "rowwise": rowwise_dim0,
    "blockwise_1x128": blockwise_1x128,
    "mxfp8_floor": mxfp8_dim0,
    "mxfp8_ceil": lambda y, dtype: mxfp8_dim0(y, dtype, rounding="ceil"),
}

COLUMNS: dict[str, Any] = {
    "rowwise": rowwise_dim1,
    "blockwise_1x128": blockwise_1x128_dim1,
    "mxfp8_floor": mxfp8_dim1,
    "mxfp8_ceil": lambda y, dtype: mxfp8_dim1(y, dtype, rounding="ceil"),
}


def vector(cols: int, x: torch.Tensor) -> torch.Tensor:
    return (1 + normal_matrix(1, cols, x.device, 0.1)[0]).to(x.dtype)


def cast_by(op: str, x: torch.Tensor, **more: Any) -> tuple[torch.Tensor, ...]:
    w = vector(x.shape[1], x)
    others = {"rms_norm": (w,), "layer_norm": (w, -w), "silu_mul": (x.flip(0),)}
    others["sigmoid_grad"] = (between_0_and_1(x),)
    outputs: tuple[torch.Tensor, ...] = getattr(fused, op)(x, *others[op], **more)
    return outputs


def between_0_and_1(x: torch.Tensor) -> torch.Tensor:
    """What a sigmoid of x's type may have been."""
    return x.flip(0).float().sigmoid().to(x.dtype)


def exact(op: str, x: torch.Tensor) -> torch.Tensor:
    a, w = x.double(), vector(x.shape[1], x).double()
    if op == "rms_norm":
        return a * (a.square().mean(dim=1, keepdim=True) + 1e-6).rsqrt() * w
    if op == "layer_norm":
        return torch.nn.functional.layer_norm(a, a.shape[1:], w, -w)
    if op == "sigmoid_grad":
        s = between_0_and_1(x).double()
        return a * s * (1 - s)
    return a * a.sigmoid() * a.flip(0)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("rows", "cols"), SHAPES)
@pytest.mark.parametrize("size", [1e-4, 1.0, 30.0])
def test_what_is_cast_is_that_of_float64(
    op: str, rows: int, cols: int, size: float, device: torch.device
) -> None:
    x = normal_matrix(rows, cols, device, size)
    y = cast_by(op, x, keep=True)[2]
    expected = exact(op, x)
    assert y.dtype == x.dtype
    # half a unit in the last place of bf16, and the errors of fp32 before it
    error = (y.double() - expected).abs()
    assert bool((error <= 2.0**-8 * expected.abs() * 1.01 + 1e-6).all())


@pytest.mark.one_in(5)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", CASTS)
@pytest.mark.parametrize(("rows", "cols"), [*SHAPES, (0, 5), (5, 0)])
def test_it_is_cast_as_if_it_had_been_written(
    op: str, kind: str, rows: int, cols: int, device: torch.device
) -> None:
    q, scale, y = cast_by(op, normal_matrix(rows, cols, device), kind=kind, keep=True)
    assert_all_equal((q, scale), CASTS[kind](y, E4M3))
    if kind == "blockwise_1x128":
        assert_read_by_products(scale)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", CASTS)
@pytest.mark.parametrize(("rows", "cols"), [*SHAPES, (40, 20), (0, 5)])
def test_both_is_the_cast_along_the_columns_too(
    op: str,
    kind: str,
    rows: int,
    cols: int,
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
) -> None:
    # several rows per program, and several programs
    for name in ("BOTH", "BOTH_WITH_ROWS_AHEAD"):
        both: fused.BothConfig = getattr(fused, name)
        few_rows = replace(both.rows, most_rows=4)
        programs = replace(both.programs, warps_per_unit=2)
        monkeypatch.setattr(fused, name, replace(both, rows=few_rows, programs=programs))
    monkeypatch.setattr(fused, "BOTH_MOST_COLUMNS", 50)
    monkeypatch.setattr(fused, "BOTH_LEAST_ELEMENTS", 300)  # of SHAPES, some
    x = normal_matrix(rows, cols, device)
    *casts, y = cast_by(op, x, kind=kind, keep=True, both=True)
    assert_all_equal(tuple(casts), (*CASTS[kind](y, E4M3), *COLUMNS[kind](y, E4M3)))
    for scale in casts[1::2] if kind == "blockwise_1x128" else ():
        assert_read_by_products(scale)
    assert len(cast_by(op, x, kind=kind, both=True)) == 4


@pytest.mark.one_in(7)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("kind", ["rowwise", "blockwise_1x128"])
@pytest.mark.parametrize("shape", [(6, 300), (40, 20), (0, 5), (5, 0)])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_scales_that_are_powers_of_two(
    op: str,
    kind: str,
    shape: tuple[int, int],
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
    device: torch.device,
) -> None:
    monkeypatch.setattr(fused, "BOTH_LEAST_ELEMENTS", 1000)  # of the shapes, one
    x = normal_matrix(*shape, device)
    more = {"kind": kind, "dtype": dtype, "power_of_two": True}
    *casts, y = cast_by(op, x, **more, keep=True, both=True)
    expected = (
        *CASTS[kind](y, dtype, power_of_two=True),
        *COLUMNS[kind](y, dtype, power_of_two=True),
    )
    assert_all_equal(tuple(casts), expected)
    for scale in casts[1::2]:
        assert bool((torch.frexp(scale).mantissa == 0.5).all())
    assert_all_equal(cast_by(op, x, **more), tuple(casts[:2]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: PTX")
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("odd", [0.0, float("nan"), float("inf")])
def test_ptx_makes_the_same(op: str, odd: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal_matrix(100, 1000, torch.device("cuda"))
    x[3, 7] = odd
    q, scale, y = cast_by(op, x, keep=True)
    monkeypatch.setattr(fused, "has_ptx", lambda _: False)
    expected = cast_by(op, x, keep=True)[2]
    if op in ("rms_norm", "layer_norm"):
        assert_equal(y, expected)
    torch.testing.assert_close(y, expected, rtol=2.0**-7, atol=1e-30, equal_nan=True)
    assert_all_equal((q, scale), rowwise_dim0(y))


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_every_type_with_zeros_and_a_nan(
    op: str, source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> None:
    x = normal_matrix(6, 48, device).to(source)
    x[2] = 0
    x[3, 7] = float("nan")
    q, scale, y = cast_by(op, x, dtype=dtype, keep=True)
    assert_all_equal((q, scale), rowwise_dim0(y, dtype))
    assert y.dtype == source
    assert y[3, 7].isnan()
    without = cast_by(op, x, dtype=dtype)
    assert len(without) == 2
    assert_equal(without[0], q)


@pytest.mark.parametrize("op", OPS)
def test_refusals_name_the_argument(op: str, device: torch.device) -> None:
    x = normal_matrix(4, 8, device)
    with pytest.raises(ValueError, match=r"kind: wanted rowwise, .*, got tensorwise"):
        cast_by(op, x, kind="tensorwise")
    with pytest.raises(ValueError, match=r"^dtype: wanted .*, got int8"):
        cast_by(op, x, dtype=torch.int8)
    for kind in ("mxfp8_floor", "mxfp8_ceil"):
        with pytest.raises(ValueError, match=f"power_of_two: wanted False for {kind} .*, got True"):
            cast_by(op, x, kind=kind, power_of_two=True)
    most = fused.MOST_COLUMNS[op]
    with pytest.raises(ValueError, match=f"x: wanted at most {most} columns for {op}, got "):
        cast_by(op, torch.zeros(1, most + 1, device=device))


def test_vectors_and_partners_must_fit(device: torch.device) -> None:
    x = normal_matrix(4, 8, device)
    with pytest.raises(ValueError, match=r"weight: wanted .* \[8\] .*, got bfloat16 \[7\]"):
        fused.rms_norm(x, x[0, :7])
    with pytest.raises(ValueError, match=r"bias: wanted .*, got int64 \[8\]"):
        fused.layer_norm(x, x[0], torch.zeros(8, dtype=torch.int64, device=device))
    with pytest.raises(ValueError, match=r"weight: wanted .*float32 \[8\] .*, got float64 \[8\]"):
        fused.layer_norm(x, x[0].double(), None)
    with pytest.raises(ValueError, match=r"up: wanted bfloat16 \[4, 8\] as gate, got float32"):
        fused.silu_mul(x, x.float())
