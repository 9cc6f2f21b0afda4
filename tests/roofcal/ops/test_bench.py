"""Inputs and errors that all ops share."""

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

import pytest
import torch

from roofcal.core.recipes import GEMM_RECIPES
from roofcal.core.records import Distribution
from roofcal.ops import BY_NAME
from roofcal.ops.bench import (
    compiled_for_one_shape,
    draw,
    load_bench,
    norm_error,
    quantisation_error,
    relative_errors,
)
from roofcal.ops.gemm import bench as gemm_bench
from roofcal.ops.spec import Unsupported
from tests.paths import ROOT
from tests.roofcal.ops.linear.test_spec import OWN
from tests.roofcal.ops.transformer_block.test_spec import TINY


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_normal_data_is_normal_and_zeros_are_zeros() -> None:
    x = draw(generator(), "normal", 200, 200).float()
    assert abs(float(x.mean())) < 0.02
    assert abs(float(x.std()) - 1) < 0.02
    assert not draw(generator(), "zeros", 4, 4).any()


def test_another_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown distribution 'ones'; allowed: normal, outlier_c"):
        draw(generator(), "ones", 1)


@pytest.mark.parametrize("distribution", get_args(Distribution))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_every_distribution_is_drawn_again_from_an_equal_seed(
    distribution: str, dtype: torch.dtype
) -> None:
    x = draw(generator(), distribution, 24, 700, dtype=dtype)
    assert (x.shape, x.dtype) == ((24, 700), dtype)
    assert torch.equal(draw(generator(), distribution, 24, 700, dtype=dtype), x)
    if distribution != "zeros":
        assert not torch.equal(draw(generator(1), distribution, 24, 700, dtype=dtype), x)


@pytest.mark.parametrize(("columns", "outliers"), [(16, 1), (512, 1), (513, 2), (1600, 4)])
def test_a_few_columns_are_many_times_larger(columns: int, outliers: int) -> None:
    x = draw(generator(), "outlier_channels", 256, columns).float()
    deviations = x.std(0)
    large = deviations > 30
    assert int(large.sum()) == outliers
    assert deviations[large].mean() == pytest.approx(64, rel=0.1)
    assert x[:, ~large].std() == pytest.approx(1, rel=0.05)


def test_heavy_tails_are_those_of_student() -> None:
    """P(|t| > 3.182) = 5 % and P(|t| > 12.92) = 0.1 % with 3 degrees of freedom (any t table)."""
    x = draw(generator(), "heavy_tails", 1000, 1000, dtype=torch.float32)
    assert float((x.abs() > 3.182).float().mean()) == pytest.approx(0.05, rel=0.02)
    assert float((x.abs() > 12.92).float().mean()) == pytest.approx(0.001, rel=0.15)
    assert abs(float(x.median())) < 0.01


def test_the_error_is_relative_to_the_reference() -> None:
    reference = torch.tensor([3.0, 4.0])
    assert norm_error(torch.tensor([3.0, 4.5]), reference) == pytest.approx(0.1)
    assert norm_error(torch.tensor([0.5]), torch.tensor([0.0])) == 0.5
    assert not norm_error(torch.tensor([float("nan")]), torch.tensor([1.0])) <= 1e9


def test_the_draws_are_made_only_for_ops_that_compare_with_them() -> None:
    def never() -> dict[str, torch.Tensor]:
        raise AssertionError

    for op in ("probe_math", "cast"):
        assert quantisation_error(op, load_bench(op), "bf16", {}, never) is None
    assert quantisation_error("gemm", load_bench("gemm"), "bf16", {}, never) == 0


def test_errors_are_those_of_each_output_where_the_op_tells_them_apart() -> None:
    shape = {"m": 32, "n": 32, "k": 64}
    for op, names in (("gemm", None), ("linear", ["output", "grad_input", "grad_weight"])):
        bench = load_bench(op)
        inputs = bench.make_inputs("bf16", shape, generator(), "normal")
        output = bench.build("torch_cpu", "bf16", shape)(inputs)
        error, by_output = relative_errors(bench, "bf16", inputs, output)
        assert error == bench.relative_error("bf16", inputs, output)
        assert (by_output and list(by_output)) == names
        assert by_output is None or error == max(by_output.values())


def test_every_shape_of_a_function_stays_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo gives up after eight shapes of one function and runs it eagerly, without a word."""
    compiled: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))

    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    functions = [compiled_for_one_shape(twice) for _ in range(12)]
    for _ in range(2):
        for size, function in enumerate(functions):
            assert function(torch.ones(size + 2)).sum() == 2 * (size + 2)
    assert len(compiled) == len(functions)


def outputs_of(op: str, recipe: str, shape: dict[str, int], distribution: str = "normal") -> Any:
    """Inputs of an op, and what its plain provider makes of them: a tensor, or one of each."""
    bench, provider = load_bench(op), "torch_eager" if op == "cast" else "torch_cpu"
    inputs = bench.make_inputs(recipe, shape, generator(), distribution)
    output = bench.build(provider, recipe, shape)(inputs)
    return inputs, (output,) if isinstance(output, torch.Tensor) else tuple(output)


def verdicts(op: str, recipe: str, inputs: Any, outputs: Sequence[torch.Tensor]) -> list[bool]:
    """Whether each output is let through where the op tells them apart, else whether all are."""
    bench, alone = load_bench(op), op in ("gemm", "mixed_gemm")
    given = outputs[0] if alone else tuple(outputs)
    error, by_output = relative_errors(bench, recipe, inputs, given)
    return [one <= bench.tolerance(recipe) for one in (by_output or {"": error}).values()]


def spoilt(right: torch.Tensor, mistake: str, factor: float) -> torch.Tensor:
    wrong = right.float().clone()
    sheet = wrong.view(len(wrong), -1) if wrong.ndim else wrong.view(1, 1)
    rows, columns = sheet.shape
    if mistake == "tile":  # between the rows that a check of large products samples
        first = rows * 3 // 8
        sheet[first : max(rows // 2, first + 1), : max(columns // 4, 1)] = 0
    elif mistake == "nan":
        sheet[-1, -1] = math.nan
    elif mistake == "scale":  # some scales are powers of two
        sheet *= 2 if right.dtype == torch.float8_e8m0fnu else factor
    else:
        sheet.copy_(sheet.roll(1, dims=0))
    return wrong.to(right.dtype)


ON_CPU = ("fp32", "bf16", "int8", "fp8_tensorwise")  # products that torch has on any processor
INT4 = [recipe for recipe in BY_NAME["mixed_gemm"].recipes if recipe.startswith("int4")]
LINEARS = (*BY_NAME["linear"].recipes, OWN)
PRODUCT, LINEAR = {"m": 256, "n": 256, "k": 128}, {"m": 100, "n": 64, "k": 128}


class Spoilt(NamedTuple):
    """What calls of an op may do wrong; `factor`: of a scale; `sampled`: see below."""

    op: str
    recipes: tuple[str, ...]
    shape: dict[str, int]
    mistakes: str = "tile nan scale shift"
    factor: float = 2.0
    sampled: bool = False


SPOILT = [
    Spoilt("gemm", ON_CPU, PRODUCT),
    Spoilt("gemm", ON_CPU, PRODUCT, sampled=True),
    Spoilt("mixed_gemm", tuple(INT4), {"m": 5, "n": 64, "k": 256}, factor=1.05),
    Spoilt("cast", BY_NAME["cast"].recipes, {"rows": 64, "cols": 48}, "tile nan scale", 1.05),
    Spoilt("linear", LINEARS, LINEAR),
    Spoilt("norm_linear_sigmoid", LINEARS, LINEAR),
    Spoilt("transformer_block", LINEARS, TINY, "nan scale shift", 1.25),
]


@pytest.mark.parametrize(
    ("case", "recipe"), [(case, recipe) for case in SPOILT for recipe in case.recipes]
)
def test_a_right_output_is_let_through_and_each_that_is_spoilt_is_not(
    case: Spoilt, recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large products are checked by some rows and a random projection of the others."""
    monkeypatch.setattr(gemm_bench, "_FULL_REFERENCE_FLOPS", 0 if case.sampled else 1e18)
    monkeypatch.setattr(gemm_bench, "_SAMPLED_ROWS", 4)
    inputs, outputs = outputs_of(case.op, recipe, case.shape)
    right = verdicts(case.op, recipe, inputs, outputs)
    assert all(right)
    mistakes = case.mistakes.replace("nan", "") if recipe == "int8" else case.mistakes
    for mistake in mistakes.split():
        wrong = [spoilt(output, mistake, case.factor) for output in outputs]
        several = [wrong] if len(right) == len(wrong) else one_replaced(outputs, wrong)
        for given in several:
            assert not any(verdicts(case.op, recipe, inputs, given)), mistake


def one_replaced(right: Sequence[Any], wrong: Sequence[Any]) -> list[list[Any]]:
    return [[*right[:i], one, *right[i + 1 :]] for i, one in enumerate(wrong)]


@pytest.mark.parametrize(
    ("op", "recipe", "shape"),
    [
        *(("cast", recipe, {"rows": 8, "cols": 8}) for recipe in BY_NAME["cast"].recipes),
        ("gemm", "fp8_tensorwise", {"m": 16, "n": 16, "k": 16}),
        ("mixed_gemm", "int4_groupwise_g32", {"m": 5, "n": 64, "k": 256}),
        ("linear", "fp8_axiswise", LINEAR),
    ],
)
def test_zeros_make_zeros(op: str, recipe: str, shape: dict[str, int]) -> None:
    inputs, outputs = outputs_of(op, recipe, shape, "zeros")
    assert not outputs[0].float().any()
    assert all(verdicts(op, recipe, inputs, outputs))
    if op in ("gemm", "mixed_gemm"):
        assert not any(verdicts(op, recipe, inputs, [outputs[0] + 1]))


FP8 = [name for name, recipe in GEMM_RECIPES.items() if recipe.math_dtype == "fp8"]
BLOCKS, G64, MN = "fp8_blockwise_128x128", "int4_groupwise_g64", {"m": 1, "n": 1}
CAST, SIDES, NARROW = {"rows": 1, "cols": 1}, {"m": 128, "n": 64, "k": 128}, {"m": 5, "n": 64}
ON_HOPPER = "on Hopper GPUs alone"
# op, provider, recipe, shape -> what is said
REFUSED: list[tuple[str, str, str, dict[str, int], str]] = [
    ("probe_copy", "dma", "read", {"size_bytes": 64}, "unknown provider 'dma'"),
    ("probe_launch", "x", "empty", {"grid": 1}, "unknown provider 'x'"),
    ("probe_link", "mpi", "all_gather", {"size_bytes": 64}, "unknown provider 'mpi'"),
    ("all_gather_matmul", "nccl", "bf16", SIDES, "unknown provider 'nccl'"),
    ("cast", "magic", "fp8_tensorwise", CAST, "unknown provider 'magic'"),
    ("gemm", "mkl", "bf16", MN | {"k": 1}, "unknown provider 'mkl'"),
    ("gemm", "cublaslt", "fp8_axiswise", {"m": 1, "n": 24, "k": 64}, "of 16; got n=24"),
    ("gemm", "cublaslt", "fp8_axiswise", {"m": 1, "n": 64, "k": 20}, "of 16; got k=20"),
    ("gemm", "triton", "bf16", MN | {"k": 64}, "has fp8 products only; got bf16"),
    ("gemm", "triton", "fp8_axiswise", MN | {"k": 24}, "K to be a multiple of 16 .*; got k=24"),
    *(
        ("gemm", name, BLOCKS, {"m": 1, "n": 128, "k": 192}, "K to be a .* of 128; got k=192")
        for name in ("triton", "cublaslt", "torch_cpu")
    ),
    ("mixed_gemm", "tinygemm", G64, {"m": 5, "n": 40, "k": 256}, "N to be a multiple of 16"),
    ("mixed_gemm", "triton", G64, NARROW | {"k": 100}, "k: got 100, wanted a multiple of 128"),
    *(
        ("mixed_gemm", name, recipe, NARROW | {"k": 256}, f"'{name}' has no product of recipe")
        for name, recipe in (
            *(("tinygemm", "bf16"), ("triton", "fp8_weight_only"), ("torch_compile", G64)),
            ("magic", G64),
        )
    ),
    ("linear", "magic", "bf16", SIDES, "unknown provider 'magic' for op linear"),
    ("norm_linear_sigmoid", "magic", "bf16", SIDES, "for op norm_linear_sigmoid"),
    ("linear", "bf16_compile", "fp8_axiswise", SIDES, "has no recipe but bf16; got fp8_axiswise"),
    ("linear", "torchao", "mxfp8", SIDES, "'torchao' of op linear has the recipes .*; got mxfp8"),
    ("linear", "torchao", "bf16", SIDES, "'torchao' of op linear has the recipes .*; got bf16"),
    ("linear", "torch_cpu", "fp8_axiswise", SIDES | {"n": 40}, "multiples of 16; got n=40"),
    ("linear", "triton", OWN, SIDES | {"k": 7}, "multiples of 16; got k=7"),
    ("transformer_block", "magic", "bf16", TINY, "'magic' for op transformer_block"),
    ("transformer_block", "bf16_compile", "fp8_axiswise", TINY, "has no recipe but bf16; got fp8"),
    ("transformer_block", "torchao", "mxfp8", TINY, "has the recipes .*; got mxfp8"),
    *(
        ("transformer_block", "torch_cpu", recipe, TINY | change, says)
        for recipe, change, says in (
            ("fp8_axiswise", {"hidden": 120}, "multiples of 16; got hidden=120"),
            ("bf16", {"tokens": 48}, "tokens=48 is no multiple of sequence=32"),
            ("bf16", {"kv_heads": 3}, "heads=8 is no multiple of kv_heads=3"),
            ("bf16", {"head_dim": 15}, "head_dim=15 is odd"),
        )
    ),
]
WITHOUT_A_GPU: list[tuple[str, str, str, dict[str, int], str]] = [
    *(
        ("cast", "triton", recipe, CAST, "'triton' of op cast needs a GPU; this machine has none")
        for recipe in BY_NAME["cast"].recipes
    ),
    *(
        ("gemm", "triton", recipe, MN | {"k": 128}, "'triton' of op gemm needs a GPU; this machine")
        for recipe in FP8
    ),
    *(("gemm", name, BLOCKS, SIDES | {"n": 128}, ON_HOPPER) for name in ("cublaslt", "torch_cpu")),
    *(
        ("linear", name, "fp8_axiswise", SIDES, f"'{name}' of op linear needs a GPU; this machine")
        for name in ("triton", "triton_products", "torchao")
    ),
]


@pytest.mark.usefixtures("lonely")
@pytest.mark.parametrize(("op", "provider", "recipe", "shape", "says"), REFUSED + WITHOUT_A_GPU)
def test_what_a_provider_refuses_is_unsupported_with_the_reason(
    op: str, provider: str, recipe: str, shape: dict[str, int], says: str
) -> None:
    if torch.cuda.is_available() and (op, provider, recipe, shape, says) in WITHOUT_A_GPU:
        pytest.skip("this machine has a GPU")
    with pytest.raises(Unsupported, match=says):
        load_bench(op).build(provider, recipe, shape)


@pytest.mark.parametrize(
    ("op", "recipe", "shape", "capability", "says"),
    [
        ("cast", "fp8_tensorwise", CAST, (8, 0), r"8\.9 or later\); this one has 8\.0"),
        ("gemm", "fp8_tensorwise", MN | {"k": 16}, (8, 0), r"8\.9 or later\); this one has 8\.0"),
        ("linear", "fp8_axiswise", SIDES, (8, 0), r"8\.9 or later\); this one has 8\.0"),
        (
            "linear",
            "mxfp8",
            SIDES,
            (9, 0),
            r"blocks of 32 \(compute capability 10\.0 or later",
        ),
    ],
)
def test_a_gpu_that_lacks_the_instructions_is_unsupported(
    op: str,
    recipe: str,
    shape: dict[str, int],
    capability: tuple[int, int],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    with pytest.raises(Unsupported, match=says):
        load_bench(op).build("triton", recipe, shape)


# In a process of its own: Triton interprets only what was imported with TRITON_INTERPRET set.
INTERPRETED = """
import torch
from tests.kernels import faithful
faithful.install()
from roofcal.core.recipes import GEMM_RECIPES
from roofcal.ops.cast import bench as cast
from roofcal.ops.gemm import bench as gemm
from roofcal.ops.cast.spec import OP
x = torch.randn(100, 70).to(torch.bfloat16)
for name in OP.recipes:
    print("cast", name, cast.relative_error(name, {"x": x}, cast._triton_cast(name)(x)))
for name, recipe in GEMM_RECIPES.items():
    for m in (1, 100) if recipe.math_dtype == "fp8" else ():
        blockwise = gemm._blockwise(recipe)
        shape = {"m": m, "n": 200 if blockwise else 70, "k": 384 if blockwise else 272}
        inputs = gemm.make_inputs(name, shape, torch.Generator(), "normal")
        product = gemm._triton_blocks if blockwise else gemm._triton_product(recipe)
        print("gemm", name, gemm.relative_error(name, inputs, product(inputs)))
"""


def test_the_kernels_pass_the_gate_in_the_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", INTERPRETED]
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    errors = [line.split() for line in run.stdout.splitlines()]
    ran = [("cast", name) for name in BY_NAME["cast"].recipes]
    ran += [("gemm", name) for name in FP8 for _ in range(2)]
    assert [(op, name) for op, name, _ in errors] == ran
    for op, name, error in errors:
        assert float(error) <= load_bench(op).tolerance(name)
