"""Every cast to fp8 against plain torch, to the bit, in the interpreter or on the GPU."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from kernels.cast import blocks, both_ways, columns, rows, rule, tensorwise
from tests.kernels.cast.fp8_reference import (
    E4M3,
    E5M2,
    assert_all_equal,
    assert_equal,
    assert_read_by_products,
    blockwise,
    mx,
    normal_matrix,
    rowwise,
    scale_of,
    squares,
    transposed,
    whole,
)

Outputs = tuple[torch.Tensor, ...]
Cast = Callable[..., Outputs]  # of a matrix, and optionally of the type to store


def down(by_rows: Cast) -> Cast:
    """The cast along the columns, transposed."""
    return lambda x, dtype: by_rows(transposed(x), dtype)


def both(by_rows: Cast) -> Cast:
    return lambda x, dtype: (*by_rows(x, dtype), *by_rows(transposed(x), dtype))


def patched(cast: Cast, *values: tuple[str, Any]) -> Cast:
    """The cast under another kernels.cast.rule."""

    def call(x: torch.Tensor, dtype: torch.dtype = E4M3) -> Outputs:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in values:
                patch.setattr(rule, name, value)
            return cast(x, dtype)

    return call


# By the kernels that columns of this length, and inputs of this size, do not need.
NO_SHORT = ("SHORT_COLUMNS", replace(rule.SHORT_COLUMNS, most_rows=0, most_ragged_rows=0))
TOGETHER = ("BOTH_LEAST_ELEMENTS", 0)
FLOOR, CEIL = partial(mx, rounding="floor"), partial(mx, rounding="ceil")
CASTS: dict[str, tuple[Cast, Cast]] = {
    "tensorwise": (tensorwise.tensorwise, whole),
    "tensorwise both ways": (both_ways.tensorwise_both, both(whole)),
    "rows": (rows.rowwise_dim0, rowwise),
    "columns": (columns.rowwise_dim1, down(rowwise)),
    "columns in two passes": (patched(columns.rowwise_dim1, NO_SHORT), down(rowwise)),
    "rows and columns": (columns.rowwise_both, both(rowwise)),
    "rows and columns in two passes": (patched(columns.rowwise_both, NO_SHORT), both(rowwise)),
    "rows and maxima": (patched(columns.rowwise_both, NO_SHORT, TOGETHER), both(rowwise)),
    "mx floor": (partial(blocks.mxfp8_dim0, rounding="floor"), FLOOR),
    "mx floor down": (partial(blocks.mxfp8_dim1, rounding="floor"), down(FLOOR)),
    "mx floor both ways": (partial(blocks.mxfp8_both, rounding="floor"), both(FLOOR)),
    "mx ceil": (partial(blocks.mxfp8_dim0, rounding="ceil"), CEIL),
    "mx ceil down": (partial(blocks.mxfp8_dim1, rounding="ceil"), down(CEIL)),
    "mx ceil both ways": (partial(blocks.mxfp8_both, rounding="ceil"), both(CEIL)),
    "strips": (blocks.blockwise_1x128, blockwise),
    "strips down": (blocks.blockwise_1x128_dim1, down(blockwise)),
    "strips both ways": (both_ways.blockwise_1x128_both, both(blockwise)),
    "squares": (blocks.blockwise_128x128, squares),
    "squares both ways": (both_ways.blockwise_128x128_both, both(squares)),
}
EVERY = pytest.mark.parametrize("name", CASTS)


def check(name: str, x: torch.Tensor, dtype: torch.dtype = E4M3) -> None:
    cast, reference = CASTS[name]
    outputs = cast(x, dtype)
    assert_all_equal(outputs, reference(x, dtype))
    for scale in outputs[1::2] if "strips" in name else ():
        assert_read_by_products(scale)


# Rows in multiples of 16 go to the tensor memory unit on a GPU that has one, others never do.
SMALL = [(1, 1), (1, 100), (100, 1), (33, 17), (16, 64), (144, 131)]
LARGE = [(256, 128), (144, 272), (64, 256), (4112, 2072)]


@EVERY
@pytest.mark.parametrize(
    "shape", [*SMALL, *(pytest.param(shape, marks=pytest.mark.gpu) for shape in LARGE)]
)
def test_it_is_right_on_ragged_shapes(
    name: str, shape: tuple[int, int], device: torch.device
) -> None:
    check(name, normal_matrix(*shape, device))


@EVERY
@pytest.mark.one_in(3)
@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e-6, 1e6, 1e30, 1e38])
def test_it_is_right_on_tiny_and_huge_values(name: str, size: float, device: torch.device) -> None:
    check(name, normal_matrix(40, 48, device, size).clamp(-3e38, 3e38))


@EVERY
@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", [torch.float16, torch.float32])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_it_is_right_on_every_type(
    name: str, source: torch.dtype, dtype: torch.dtype, device: torch.device
) -> None:
    check(name, normal_matrix(40, 48, device).to(source), dtype)


@EVERY
@pytest.mark.one_in(5)
@pytest.mark.parametrize("odd", [0.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("zeros", [False, True])
def test_it_treats_odd_values_as_the_reference_does(
    name: str, odd: float, zeros: bool, device: torch.device
) -> None:
    x = normal_matrix(40, 48, device)
    if zeros:
        x[:, 3] = 0
        x[-1] = 0
    x[3, 7] = odd
    check(name, x)


@EVERY
def test_it_reads_rows_that_lie_apart(name: str, device: torch.device) -> None:
    check(name, normal_matrix(32, 70, device)[:, 3:40])


@EVERY
@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_casts_of_nothing_have_the_scales_of_zeros(
    name: str, shape: tuple[int, int], device: torch.device
) -> None:
    outputs = CASTS[name][0](torch.zeros(shape, device=device))
    for q, scale in zip(outputs[::2], outputs[1::2], strict=True):
        assert sorted(q.shape) == sorted(shape)
        if scale.numel():
            assert_equal(scale, scale_of(torch.zeros(scale.shape, device=device), E4M3))


@EVERY
def test_it_refuses_other_inputs(name: str, device: torch.device) -> None:
    cast, x = CASTS[name][0], torch.zeros(3, 4, device=device)
    for bad, said in (
        (x.int(), "bfloat16 or .*, got int32"),
        (x[0], "a matrix .*, got shape"),
        (x.t(), "rows without gaps"),
    ):
        with pytest.raises(ValueError, match=f"^x: wanted {said}"):
            cast(bad)
    with pytest.raises(ValueError, match=r"^dtype: wanted float8_e4m3fn or float8_e5m2, got int8"):
        cast(x, torch.int8)


# --- scales per block ---


def test_scales_rounded_up_saturate_nothing_and_exact_powers_are_kept(
    device: torch.device,
) -> None:
    # amax exactly 448, the next float above it, and just below 512, in blocks of their own
    x = torch.zeros(3, 32, device=device)
    x[:, 0] = torch.tensor([448.0, 448.00003, 511.99997])
    up, down = (blocks.mxfp8_dim0(x, rounding=rounding) for rounding in ("ceil", "floor"))
    assert up[1].view(torch.uint8).flatten().tolist() == [127, 128, 128]
    assert down[1].view(torch.uint8).flatten().tolist() == [127, 127, 127]
    assert up[0][:, 0].float().tolist() == [448.0, 224.0, 256.0]
    assert down[0][:, 0].float().tolist() == [448.0, 448.0, 448.0]


@pytest.mark.parametrize("cast", [blocks.mxfp8_dim0, blocks.mxfp8_dim1, blocks.mxfp8_both])
def test_an_unknown_rounding_is_refused(cast: Any, device: torch.device) -> None:
    with pytest.raises(ValueError, match="rounding: wanted floor or ceil, got up"):
        cast(torch.zeros(3, 4, device=device), rounding="up")


@pytest.mark.parametrize(
    "cast", [blocks.blockwise_1x128, blocks.blockwise_1x128_dim1, blocks.blockwise_128x128]
)
def test_scales_of_blocks_may_be_powers_of_two(cast: Any, device: torch.device) -> None:
    x = normal_matrix(10, 140, device)
    exact, rounded = cast(x)[1], cast(x, power_of_two=True)[1]
    assert_equal(rounded, torch.exp2(torch.ceil(torch.log2(exact))))


def test_a_row_beyond_one_tile(device: torch.device) -> None:
    x = normal_matrix(2, blocks.ALONG_ROWS.elements + 40, device)
    check("mx floor", x)
    check("strips", x)


@pytest.mark.parametrize(("rows", "cols"), [(20, 72), (3, 1000)])
@pytest.mark.parametrize("name", ["mx floor", "mx floor both ways", "strips", "strips down"])
def test_units_of_rows_may_be_smaller_than_16_bytes(
    name: str, rows: int, cols: int, device: torch.device
) -> None:
    check(name, normal_matrix(rows, cols, device))


@pytest.mark.parametrize("name", ["mx floor down", "mx floor both ways"])
def test_few_rows_may_be_cast_as_many_are(
    name: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "FEW_ROWS", 0)
    check(name, normal_matrix(33, 40, device))


@pytest.mark.parametrize("name", ["mx floor", "mx ceil down", "mx ceil both ways", "strips"])
def test_small_matrices_may_be_cast_as_large_ones_are(
    name: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr(blocks, "SMALL_MOST_ELEMENTS", 0)
    check(name, normal_matrix(blocks.ALONG_COLUMNS.rows + 1, blocks.ALONG_COLUMNS.cols + 3, device))
