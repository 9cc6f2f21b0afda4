"""Products on the CPU: every recipe is right, and a wrong one is caught."""

import pytest
import torch

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.ops.bench import draw
from roofcal.ops.gemm import bench

FP8_RECIPES = [name for name, recipe in GEMM_RECIPES.items() if recipe.math_dtype == "fp8"]
CPU_RECIPES = ("fp32", "bf16", "int8", "fp8_tensorwise")
BLOCKS = "fp8_blockwise_128x128"
SHAPES = [(64, 64, 64), (1, 48, 80), (33, 1, 17), (100, 70, 130), (5, 7, 3)]


def inputs_and_output(
    recipe: str, m: int, n: int, k: int, distribution: str = "normal"
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    shape = {"m": m, "n": n, "k": k}
    generator = torch.Generator().manual_seed(m + n + k)
    inputs = bench.make_inputs(recipe, shape, generator, distribution)
    return inputs, bench.build("torch_cpu", recipe, shape)(inputs)


@pytest.mark.parametrize("recipe", CPU_RECIPES)
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("whole", [True, False])
def test_a_product_is_right_by_both_checks(
    recipe: str, m: int, n: int, k: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_FULL_REFERENCE_FLOPS", 1e18 if whole else 0)
    inputs, output = inputs_and_output(recipe, m, n, k)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


def test_contenders_get_the_same_data() -> None:
    plain, _ = inputs_and_output("fp32", 32, 32, 32)
    half, _ = inputs_and_output("bf16", 32, 32, 32)
    assert torch.equal(plain["a"].to(torch.bfloat16), half["a"])
    fp8, _ = inputs_and_output("fp8_tensorwise", 32, 32, 32)
    assert torch.allclose(fp8["a"].float() * fp8["scale_a"], plain["a"], rtol=0.07, atol=0.01)


def test_quantised_values_fill_the_format_and_never_overflow() -> None:
    x = torch.randn(300, 64) * 1e4
    for rowwise in (True, False):
        q, scale = bench.quantise_fp8(x, rowwise=rowwise)
        assert not q.float().isnan().any()
        assert float(q.float().abs().max()) == 448
        assert torch.allclose(q.float() * scale, x, rtol=0.07, atol=float(scale.max()))


def test_blocks_of_scales_stand_where_cublaslt_wants_them() -> None:
    inputs = bench.make_inputs(BLOCKS, {"m": 3, "n": 200, "k": 640}, torch.Generator(), "normal")
    scale_a, scale_b = inputs["block_scale_a"], inputs["block_scale_b"].t()
    assert (scale_a.shape, scale_a.stride()) == ((3, 5), (1, 3))
    assert (scale_b.shape, scale_b.stride()) == ((8, 2), (1, 8))  # 5 steps, padded to 8
    for name in ("a", "b"):
        assert float(inputs[name].float().abs().max()) == 448


def test_scales_and_sampled_rows_are_the_same_under_any_default_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "_FULL_REFERENCE_FLOPS", 0)
    monkeypatch.setattr(bench, "_SAMPLED_ROWS", 300)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        inputs, c = bench_of_blocks()
        seen = bench.relative_error(BLOCKS, inputs, c)
    finally:
        torch.set_default_dtype(before)
    assert inputs["block_scale_b"].dtype == torch.float32
    expected, _ = bench_of_blocks()
    for name, x in expected.items():
        assert torch.equal(inputs[name].float(), x.float())
    # bf16 cannot number 520 rows; a part of the error is that of a random projection
    assert seen == pytest.approx(bench.relative_error(BLOCKS, inputs, c), rel=0.25)


def bench_of_blocks() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Inputs of more rows than bf16 counts, and their product with an error that grows by row."""
    shape = {"m": 520, "n": 16, "k": 128}
    inputs = bench.make_inputs(BLOCKS, shape, torch.Generator().manual_seed(1), "normal")
    source = torch.Generator().manual_seed(1)
    a, b = (draw(source, "normal", rows, 128).double() for rows in (520, 16))
    return inputs, (a @ b.t()) * torch.linspace(1, 1.3, 520, dtype=torch.float64)[:, None]


@pytest.mark.parametrize("whole", [True, False])
def test_blocks_of_scales_are_undone_by_both_checks(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_FULL_REFERENCE_FLOPS", 1e18 if whole else 0)
    monkeypatch.setattr(bench, "_SAMPLED_ROWS", 16)
    shape = {"m": 70, "n": 200, "k": 384}
    inputs = bench.make_inputs(BLOCKS, shape, torch.Generator().manual_seed(1), "normal")
    source = torch.Generator().manual_seed(1)
    a, b = (draw(source, "normal", rows, 384).double() for rows in (70, 200))
    assert bench.relative_error(BLOCKS, inputs, a @ b.t()) < 0.05  # what quantising costs
    wrong = a @ b.t()
    wrong[:, 128:] *= 2
    assert bench.relative_error(BLOCKS, inputs, wrong) > 0.5


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", FP8_RECIPES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 3584, 8192), (64, 130, 272), (1000, 1000, 1008)])
def test_the_kernels_pass_the_gate_on_a_gpu(recipe: str, m: int, n: int, k: int) -> None:
    shape = {"m": m, "n": n, "k": -(-k // 128) * 128 if recipe == BLOCKS else k}
    inputs = bench.make_inputs(recipe, shape, torch.Generator("cuda"), "normal")
    output = bench.build("triton", recipe, shape)(inputs)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


@pytest.mark.parametrize("distribution", ["normal", "zeros"])
def test_what_a_format_costs_is_told_apart_from_the_kernel(distribution: str) -> None:
    drawn, _ = inputs_and_output("bf16", 70, 50, 256, distribution)
    errors = {}
    for recipe in GEMM_RECIPES:
        inputs, _ = inputs_and_output("bf16", 70, 50, 256, distribution)
        if recipe != "bf16":
            shape = {"m": 70, "n": 50, "k": 256}
            source = torch.Generator().manual_seed(70 + 50 + 256)
            inputs = bench.make_inputs(recipe, shape, source, distribution)
        errors[recipe] = bench.quantisation_error(recipe, inputs, lambda: drawn)
    assert errors.pop("int8") is None
    assert (errors.pop("bf16"), errors.pop("fp32")) == (0, 0)
    for error in errors.values():
        assert error == 0 if distribution == "zeros" else 0.02 < (error or 0) < 0.05


def test_what_a_format_costs_is_measured_on_rows_spread_over_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "_CHUNK", 5)
    monkeypatch.setattr(bench, "_SAMPLED_ROWS", 3)
    inputs, _ = inputs_and_output("bf16", 7, 20, 64)
    rows_a, rows_b = bench.spread_rows(inputs)
    assert rows_a.tolist() == [0, 3, 6]
    assert rows_b.tolist() == [0, 5, 10, 14, 19]
    assert bench.product_of_rows(inputs, rows_a, rows_b).shape == (3, 5)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9,
    reason="needs a Hopper GPU",
)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 3584, 8192), (1000, 1024, 1152)])
def test_torchs_blocks_of_scales_pass_the_gate_on_a_gpu(m: int, n: int, k: int) -> None:
    shape = {"m": m, "n": n, "k": k}
    inputs = bench.make_inputs(BLOCKS, shape, torch.Generator("cuda"), "normal")
    output = bench.build("cublaslt", BLOCKS, shape)(inputs)
    assert bench.relative_error(BLOCKS, inputs, output) <= bench.tolerance(BLOCKS)
