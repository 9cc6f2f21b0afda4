"""Packing keeps every weight, quantising finds the nearest level, bad input is named."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.int4 import packing
from kernels.int4.packing import Quantised


def drawn(
    rows: int, k: int, group: int, *, zeros: bool = False, dtype: torch.dtype = torch.bfloat16
) -> Quantised:
    generator = torch.Generator().manual_seed(rows * k + group)
    wanted = (rows, k // group)
    return Quantised(
        q=torch.randint(0, 16, (rows, k), generator=generator, dtype=torch.uint8),
        scales=torch.rand(wanted, generator=generator).to(dtype),
        zeros=torch.randint(0, 16, wanted, generator=generator).to(dtype) if zeros else None,
        group=group,
    )


@given(
    rows=st.integers(1, 130),
    units=st.integers(1, 3),
    group=st.sampled_from([32, 64, 128, None]),
    zeros=st.booleans(),
    dtype=st.sampled_from(packing.SCALE_DTYPES),
)
def test_unpack_gives_back_what_was_packed(
    rows: int, units: int, group: int | None, zeros: bool, dtype: torch.dtype
) -> None:
    before = drawn(rows, 128 * units, group or 128 * units, zeros=zeros, dtype=dtype)
    after = packing.unpack(packing.pack(before))
    assert after.group == before.group
    assert torch.equal(after.q, before.q)
    assert torch.equal(after.scales, before.scales)
    assert (after.zeros is None) == (before.zeros is None)
    if before.zeros is not None and after.zeros is not None:
        assert torch.equal(after.zeros, before.zeros)


def test_everything_lies_where_the_layout_says() -> None:
    quantised = drawn(64, 256, 64, zeros=True)
    weights = packing.pack(quantised)
    words = weights.packed.view(torch.int32).view(4, 2, 2, 8, 4, 4)
    assert quantised.zeros is not None and weights.zeros is not None
    for row in range(0, 64, 5):
        b, g = divmod(row % 16, 8)
        assert torch.equal(weights.scales[row // 16, :, 2 * g + b], quantised.scales[row])
        assert torch.equal(weights.zeros[row // 16, :, 2 * g + b], quantised.zeros[row])
        for column in range(256):
            h, s = column % 128 // 64, column % 64 // 16
            half, w, i = column % 16 // 8, column % 8 // 2, column % 2
            word = int(words[row // 16, column // 128, half, g, s, w])
            assert word >> 4 * (2 * h + b + 4 * i) & 15 == int(quantised.q[row, column])
    assert weights.nbytes == 64 * 256 // 2 + 4 * 64 * 4  # half a byte each, and two a scale or zero
    assert packing.pack(drawn(128, 256, 64)).nbytes == 128 * 256 // 2 + 2 * 128 * 4


@pytest.mark.parametrize("zeros", [False, True])
def test_padding_rows_are_weights_of_value_zero(zeros: bool) -> None:
    weights = packing.pack(drawn(3, 128, 32, zeros=zeros))
    whole = packing.dequantise(packing.unpack(replace(weights, rows=weights.padded_rows)))
    assert whole.shape == (64, 128)
    assert whole[3:].abs().max() == 0


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, 64, 128, 256])
def test_a_weight_is_at_most_half_a_step_from_its_level(group: int, symmetric: bool) -> None:
    w = torch.randn(32, 256, generator=torch.Generator().manual_seed(1))
    quantised = packing.quantise(w, group, symmetric=symmetric, dtype=torch.float16)
    step = quantised.scales.double().repeat_interleave(group, dim=1)
    distance = (packing.dequantise(quantised) - w.double()).abs() / step
    # rounding of the scale to fp16 (1/2048) moves the ends of the range a little past half a step;
    # rounding of the zero point, by up to half a step
    assert float(distance.max()) <= (0.51 if symmetric else 1.01)


def test_levels_are_kept_exactly() -> None:
    levels = torch.arange(-7.0, 8.0).repeat(9)[:128].repeat(2, 1) * 0.25
    quantised = packing.quantise(levels, 128)
    assert torch.equal(packing.dequantise(quantised), levels.double())
    assert packing.quantisation_error(levels, quantised) == 0.0


def test_asymmetric_levels_follow_a_shifted_range() -> None:
    w = torch.rand(8, 128, generator=torch.Generator().manual_seed(2)) + 0.5
    symmetric = packing.quantisation_error(w, packing.quantise(w, 128))
    shifted = packing.quantisation_error(w, packing.quantise(w, 128, symmetric=False))
    assert shifted < 0.6 * symmetric


def test_smaller_groups_round_less() -> None:
    w = torch.randn(64, 1024, generator=torch.Generator().manual_seed(3))
    errors = [packing.quantisation_error(w, packing.quantise(w, g)) for g in (32, 64, 128, 1024)]
    assert errors == sorted(errors)
    assert errors[0] > 0.08 and errors[-1] < 0.2


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", packing.SCALE_DTYPES)
def test_a_group_of_zeros_stays_zero(symmetric: bool, dtype: torch.dtype) -> None:
    quantised = packing.quantise(torch.zeros(4, 128), 64, symmetric=symmetric, dtype=dtype)
    assert packing.dequantise(quantised).abs().max() == 0


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.bfloat16, 1e-5), (torch.bfloat16, 1e-30), (torch.float16, 1e-5), (torch.float16, 1e-6)],
)
def test_small_weights_are_rounded_as_much_as_others(
    dtype: torch.dtype, size: float, symmetric: bool
) -> None:
    w = torch.randn(64, 1024, generator=torch.Generator().manual_seed(4))
    whole = packing.quantise(w * size, 128, symmetric=symmetric, dtype=dtype)
    assert 0.09 < packing.quantisation_error(w * size, whole) < 0.125
    w[:, 128:256] *= size  # one small group beside others
    parts = packing.dequantise(packing.quantise(w, 128, symmetric=symmetric, dtype=dtype))
    small, exact = parts[:, 128:256], w[:, 128:256].double()
    assert 0.09 < float((small - exact).norm() / exact.norm()) < 0.125


def test_weights_beyond_the_largest_scale_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights up to 1e\+06, whose scales are not finite in"):
        packing.quantise(torch.full((4, 128), 1e6), 128, dtype=torch.float16)


def test_some_rows_are_dequantised_as_in_the_whole() -> None:
    quantised = drawn(16, 128, 32, zeros=True)
    assert torch.equal(packing.dequantise(quantised, [3, 7]), packing.dequantise(quantised)[[3, 7]])


@pytest.mark.parametrize(
    ("rows", "k", "group", "message"),
    [
        (4, 100, 32, "k: got 100, wanted a multiple of 128, at most"),
        (4, 1 << 29, 128, "k: got 536870912, wanted a multiple of 128, at most 268435456"),
        (4, 256, 48, r"group: got 48, wanted one of \(32, 64, 128\) or k = 256"),
        (0, 128, 32, "rows: got 0, wanted at least 1"),
    ],
)
def test_sizes_that_cannot_be_packed_are_named(rows: int, k: int, group: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        packing.check_sizes(rows, k, group)


def test_bad_tensors_are_named() -> None:
    good = drawn(4, 128, 32, zeros=True)
    with pytest.raises(ValueError, match=r"dtype: got torch\.float32"):
        packing.quantise(torch.zeros(4, 128), 32, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"w: got torch\.int32"):
        packing.quantise(torch.zeros(4, 128, dtype=torch.int32), 32)
    with pytest.raises(ValueError, match=r"q: got torch\.int64"):
        packing.pack(replace(good, q=good.q.long()))
    with pytest.raises(ValueError, match="q: got a value of 16"):
        packing.pack(replace(good, q=good.q + 16 - good.q))
    with pytest.raises(ValueError, match=r"scales: got shape \(4, 1\), wanted \(4, 4\)"):
        packing.pack(replace(good, scales=good.scales[:, :1]))
    with pytest.raises(ValueError, match=r"zeros: got torch\.float16"):
        packing.pack(replace(good, zeros=torch.zeros(4, 4, dtype=torch.float16)))


@pytest.mark.parametrize("wrong", [7.5, -1.0, 16.0, math.nan])
def test_a_zero_point_that_is_no_level_is_named(wrong: float) -> None:
    good = drawn(4, 128, 32, zeros=True)
    assert good.zeros is not None
    zeros = good.zeros.clone()
    zeros[2, 1], zeros[3, 3] = wrong, 0.5
    with pytest.raises(ValueError, match=rf"zeros: got {wrong} in row 2, group 1, wanted whole"):
        packing.pack(replace(good, zeros=zeros))
    zeros[2:] = 15
    packing.pack(replace(good, zeros=zeros))
