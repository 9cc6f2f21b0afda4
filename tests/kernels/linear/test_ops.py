"""The custom ops: kernels against the reference, shapes of their fakes, products by granularity."""

import itertools
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import opcheck

from kernels.cast import rule
from kernels.cast.fused import MOST_COLUMNS
from kernels.common.operators import kernels_on_fakes
from kernels.linear import fusable, reference
from kernels.linear import ops as linear_ops
from tests.kernels.linear.test_reference import drawn

GRANULARITIES = ("tensorwise", "axiswise", "blockwise", "squares", "mxfp8")
SHAPES = [(1, 40), (33, 17), (20, 130)]
ENDS = [
    *((g, g) for g in GRANULARITIES),
    *itertools.product(("axiswise", "tensorwise", ""), repeat=2),
    ("blockwise", "axiswise"),
]


def assert_same(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    """Scales within an ulp, and the values they stand for within a step of fp8 in a few places."""
    assert [x.shape for x in got] == [x.shape for x in wanted]
    for q, scale, wanted_q, wanted_scale in zip(
        got[::2], got[1::2], wanted[::2], wanted[1::2], strict=True
    ):
        torch.testing.assert_close(scale.float(), wanted_scale.float(), rtol=1e-6, atol=0)
        apart = q.float() != wanted_q.float()
        assert float(apart.float().mean()) <= 2e-2
        torch.testing.assert_close(q.float(), wanted_q.float(), rtol=0.126, atol=2.0**-9)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("ends", list(dict.fromkeys(ENDS)))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_kernels_cast_as_the_reference_does(
    ends: tuple[str, str], shape: tuple[int, int], size: float, device: torch.device
) -> None:
    x = drawn(*shape, size)
    got = linear_ops.cast_by_kernels(x.to(device), *ends)
    wanted = list(reference.cast_rows(x, ends[0])) if ends[0] else []
    wanted += list(reference.cast_columns(x, ends[1])) if ends[1] else []
    assert_same([made.cpu() for made in got], wanted)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("ends", [pair for pair in dict.fromkeys(ENDS) if all(pair)])
@pytest.mark.parametrize("shape", [(33, 17), (48, 130), (300, 20)])
@pytest.mark.parametrize(("least", "widest"), [(0, 16384), (0, 32), (1 << 25, 16384)])
def test_columns_cast_later_are_those_cast_at_once(
    ends: tuple[str, str],
    shape: tuple[int, int],
    least: int,
    widest: int,
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rule, "BOTH_LEAST_ELEMENTS", least)
    monkeypatch.setattr(rule, "MOST_COLUMNS_OF_ROW", widest)
    x = drawn(*shape).to(device)
    first = linear_ops.rows_first_by_kernels(x, *ends)
    maxima = linear_ops.maxima_for_columns(first, *ends)
    later = linear_ops.columns_later_by_kernels(x, maxima, x, *ends)
    wanted = linear_ops.cast_by_kernels(x, *ends)
    assert len(first) == 2 + (ends == ("axiswise", "axiswise") and not least)
    for made, alike in zip((*first[:2], *later), wanted, strict=True):
        assert torch.equal(made.float(), alike.float())


@pytest.mark.parametrize("shape", [(0, 16), (5, 0), (1, 3), (33, 17)])
def test_the_amax_of_any_number_of_elements(shape: tuple[int, int]) -> None:
    x = drawn(*shape)
    assert float(fusable.amax(x)) == (float(x.abs().max()) if x.numel() else 0.0)
    assert fusable.amax(x).dtype == torch.float32


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_known_amax_spares_a_read_and_changes_nothing(
    both: bool, shape: tuple[int, int], device: torch.device
) -> None:
    x = drawn(*shape)
    on = x.to(device)
    got = linear_ops.cast_with_amax_by_kernels(on, fusable.amax(on), both)
    columns = "tensorwise" if both else ""
    wanted = linear_ops.cast_by_kernels(on, "tensorwise", columns)
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(got, wanted, strict=True))
    assert_same([made.cpu() for made in got], linear_ops.cast_with_amax(x, fusable.amax(x), both))


@pytest.mark.parametrize("columns", ["tensorwise", "axiswise"])
def test_columns_cast_by_plain_operations_are_those_of_the_kernels(
    columns: str, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    monkeypatch.setattr("kernels.cast.rule.BOTH_LEAST_ELEMENTS", 0)
    x = drawn(48, 130).to(device)
    first = linear_ops.rows_first_by_kernels(x, columns, columns)
    maxima = linear_ops.maxima_for_columns(first, columns, columns)
    assert maxima is not None
    got = fusable.cast_computed_columns(x, linear_ops.amax_of_maxima(maxima, columns), x)
    wanted = linear_ops.columns_later_by_kernels(x, maxima, x, columns, columns)
    assert_same([made.cpu() for made in got], [made.cpu() for made in wanted])
    assert got[0].is_contiguous()


@pytest.mark.parametrize("ends", [(g, g) for g in GRANULARITIES])
def test_no_cast_is_an_alias_of_another(ends: tuple[str, str], device: torch.device) -> None:
    x = drawn(32, 48).to(device)  # a single square, whose transpose is contiguous already
    made = [x, *linear_ops.cast_by_kernels(x, *ends)]
    assert len({tensor.untyped_storage().data_ptr() for tensor in made}) == len(made)


@pytest.mark.parametrize(
    "ends", [("axiswise", "axiswise"), ("blockwise", ""), ("axiswise", "tensorwise")]
)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_a_norm_and_its_cast_are_one(
    ends: tuple[str, str], keep: bool, affine: bool, device: torch.device
) -> None:
    x, w = drawn(20, 130).to(device), drawn(1, 130)[0].to(device)
    by, plus = (w, -w) if affine else (None, None)
    rows, columns = ends
    got = linear_ops.layer_norm_by_kernels(x, by, plus, 1e-5, rows, columns, keep)
    y = linear_ops.layer_norm_by_kernels(x, by, plus, 1e-5, rows, "", True)[2]
    assert_same(got[: len(got) - keep], linear_ops.cast_by_kernels(y, *ends))
    assert not keep or torch.equal(got[-1], y)
    wide = [None if p is None else p.double() for p in (by, plus)]
    plain = torch.nn.functional.layer_norm(x.double(), (130,), wide[0], wide[1])
    torch.testing.assert_close(y.double(), plain, rtol=2.0**-7, atol=1e-2)


@pytest.mark.parametrize("ends", [("axiswise", "axiswise"), ("blockwise", "blockwise")])
def test_a_sigmoids_gradient_and_its_cast_are_one(
    ends: tuple[str, str], device: torch.device
) -> None:
    grad, s = drawn(20, 130).to(device), drawn(20, 130).float().sigmoid().bfloat16().to(device)
    got = linear_ops.sigmoid_grad_by_kernels(grad, s, *ends, True)
    assert torch.equal(got[-1], reference.sigmoid_grad(grad, s))
    assert_same(got[:-1], linear_ops.cast_by_kernels(got[-1], *ends))


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [*itertools.product(("tensorwise", "axiswise"), repeat=2), ("blockwise", "squares")],
)
@pytest.mark.parametrize("sums", ["fast", "two_level"])
def test_our_products_are_those_of_the_reference(
    of_a: str, of_b: str, sums: str, device: torch.device
) -> None:
    a, b = reference.cast_rows(drawn(70, 144), of_a), reference.cast_rows(drawn(40, 144), of_b)
    on = [x.to(device) for x in (*a, *b)]
    got = linear_ops.product_by_kernels(on[0], on[2], on[1], on[3], of_a, sums)
    wanted = reference.product(a[0], b[0], a[1], b[1])
    torch.testing.assert_close(got.cpu().float(), wanted.float(), rtol=2.0**-7, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("of_a", "of_b"), [*itertools.product(("tensorwise", "axiswise"), repeat=2)]
)
def test_products_of_cublaslt_are_those_of_the_reference(of_a: str, of_b: str) -> None:
    a, b = reference.cast_rows(drawn(70, 144), of_a), reference.cast_rows(drawn(48, 144), of_b)
    on = [x.cuda() for x in (*a, *b)]
    got = linear_ops.product(on[0], on[2], on[1], on[3], of_a, "two_level", "cublaslt")
    wanted = reference.product(a[0], b[0], a[1], b[1])
    torch.testing.assert_close(got.cpu().float(), wanted.float(), rtol=2.0**-7, atol=1e-2)


@pytest.mark.parametrize(
    "ends",
    [("axiswise", "axiswise"), ("blockwise", "blockwise"), ("squares", "squares"), ("", "mxfp8")],
)
@pytest.mark.parametrize("shape", [(33, 48), (0, 16)])
def test_fakes_say_what_the_ops_make(ends: tuple[str, str], shape: tuple[int, int]) -> None:
    x = drawn(*shape)
    tests = ("test_schema", "test_faketensor")
    opcheck(linear_ops.cast, (x, *ends), test_utils=tests)
    opcheck(linear_ops.copied_after, (x, x), test_utils=tests)
    for both in (False, True):
        opcheck(linear_ops.cast_with_amax, (x, fusable.amax(x), both), test_utils=tests)
    if all(ends):
        opcheck(linear_ops.cast_rows_first, (x, *ends), test_utils=tests)
        opcheck(linear_ops.cast_columns_later, (x, None, x, *ends), test_utils=tests)
    opcheck(linear_ops.layer_norm_cast, (x, None, None, 1e-5, *ends, True), test_utils=tests)
    opcheck(linear_ops.sigmoid_grad_cast, (x, x, *ends, False), test_utils=tests)


@pytest.mark.parametrize("least", [0, 1 << 25])
def test_a_fake_knows_whether_maxima_are_taken_beside_rows(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule, "BOTH_LEAST_ELEMENTS", least)
    arguments = (drawn(33, 48), "axiswise", "axiswise")
    opcheck(linear_ops.cast_rows_first, arguments, test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize(
    ("granularity", "by", "columns"),
    [
        *(("axiswise", "triton", 9), ("blockwise", "cublaslt", 9)),
        *(("tensorwise", "cublaslt", 32), ("axiswise", "cublaslt", 32)),
    ],
)
@pytest.mark.parametrize("rows", [0, 5])
def test_the_fake_of_a_product_has_its_strides(
    granularity: str, by: str, columns: int, rows: int, device: torch.device
) -> None:
    a, b = (reference.cast_rows(drawn(n, 16), granularity) for n in (rows, columns))
    on = [x.to(device) for x in (*a, *b)]
    fake = fake_product(on, granularity, by)
    assert fake.shape == (rows, columns)
    assert (fake.stride(), fake.dtype) == ((-(-columns // 16) * 16, 1), torch.bfloat16)
    if columns == 9:
        made = linear_ops.product_by_kernels(on[0], on[2], on[1], on[3], granularity, "fast")
        assert (made.stride(), made.dtype) == (fake.stride(), fake.dtype)
    if columns == 9 and rows:
        arguments = (on[0], on[2], on[1], on[3], granularity, "fast")
        opcheck(torch.ops.roofcal.product.default, arguments, test_utils=("test_faketensor",))


def fake_product(on: list[torch.Tensor], granularity: str, by: str) -> torch.Tensor:
    """The product of operands a, scale_a, b, scale_b, as a compiler sees it for a GPU."""
    with FakeTensorMode():
        fakes = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda") for x in on]
        return linear_ops.product(fakes[0], fakes[2], fakes[1], fakes[3], granularity, "fast", by)


def test_rows_beyond_what_the_fused_kernels_hold_are_cast_in_two_steps() -> None:
    assert MOST_COLUMNS["layer_norm"] < 1 << 20
    x = drawn(2, MOST_COLUMNS["layer_norm"] + 16)
    made = linear_ops.layer_norm_cast(x, None, None, 1e-5, "axiswise", "", False)
    assert made[0].shape == x.shape


def test_kernels_run_on_fakes_only_where_they_are_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cast_both = mock.Mock(side_effect=lambda x: (x, x))
    monkeypatch.setitem(linear_ops._BOTH, "axiswise", cast_both)
    with FakeTensorMode():
        x = torch.empty(16, 32, dtype=torch.bfloat16)
        assert len(linear_ops.cast(x, "axiswise", "axiswise")) == 4
        assert not cast_both.called
        with kernels_on_fakes():
            linear_ops.cast(x, "axiswise", "axiswise")
    assert [call.args[0].shape for call in cast_both.mock_calls] == [(16, 32)]
