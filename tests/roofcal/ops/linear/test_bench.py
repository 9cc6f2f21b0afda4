"""Linears on the CPU: every recipe is right, a wrong one is caught, and who cannot says why."""

import sys
from dataclasses import replace

import pytest
import torch

from roofcal.core.records import PlanPoint, Protocol
from roofcal.measure.contender import prepare
from roofcal.ops.bench import compiled_for_one_shape, load_bench, relative_errors
from roofcal.ops.linear import bench
from roofcal.ops.linear.spec import OP
from roofcal.ops.spec import Unsupported
from tests.roofcal.ops.linear.test_spec import OWN
from tests.roofcal.ops.transformer_block.test_spec import TINY

SHAPE = {"m": 100, "n": 64, "k": 128}
RECIPES = (*OP.recipes, OWN)


def inputs(shape: dict[str, int], distribution: str = "normal") -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return bench.make_inputs("bf16", shape, generator, distribution)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_linear_of_one_row_is_right(recipe: str) -> None:
    shape = {"m": 1, "n": 16, "k": 400}
    operands = inputs(shape)
    output = bench.build("torch_cpu", recipe, shape)(operands)
    assert [o.shape for o in output] == [
        (shape["m"], shape["n"]),
        *(operands[k].shape for k in "xw"),
    ]
    assert bench.relative_error(recipe, operands, output) <= bench.tolerance(recipe)


def test_accuracy_is_measured_without_torch_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        seen.append(torch.compiler.is_compiling())
        return x @ w.t()

    monkeypatch.setattr(bench, "build", lambda *_: bench._trained(compiled_for_one_shape(layer)))
    timed = PlanPoint(
        op="linear", provider="bf16_compile", recipe="bf16", shape=SHAPE, device="cpu"
    )
    point = replace(timed, protocol=Protocol(method="accuracy"))
    contender = prepare(point, torch.device("cpu"), seed=0, cache_bytes=1 << 16)
    assert contender.relative_error < 1e-2
    assert seen == [False]


def test_long_sums_of_positive_data_have_more_signal_than_noise() -> None:
    """Errors of casts differ in sign and average out over K; the signal adds up."""
    shape = {"m": 16, "n": 16, "k": 4096}
    ratios = {}
    for distribution in ("normal", "all_positive"):
        operands = inputs(shape, distribution)
        output = bench.build("torch_cpu", "fp8_axiswise", shape)(operands)
        _, errors = relative_errors(bench, "fp8_axiswise", operands, output)
        assert errors is not None
        ratios[distribution] = errors["output"]
    assert ratios["all_positive"] < ratios["normal"] / 5


def test_large_references_are_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = inputs(SHAPE)
    output = bench.build("torch_cpu", "bf16", SHAPE)(operands)
    _, exact = relative_errors(bench, "bf16", operands, output)
    monkeypatch.setattr(bench, "_DOUBLE_ELEMENTS", 0)
    _, errors = relative_errors(bench, "bf16", operands, output)
    assert errors == pytest.approx(exact, rel=1e-3)
    assert {value.dtype for value in bench.exact_outputs(operands).values()} == {torch.float32}


def test_without_torchao_its_points_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao.float8", None)
    with pytest.raises(Unsupported, match="pip install torchao"):
        bench.torchao_converted(bench.torchao_module(16, 32), "fp8_axiswise")


def test_torchao_knows_its_recipes_by_these_names() -> None:
    from torchao.float8 import Float8LinearConfig

    for name in bench.TORCHAO.values():
        assert Float8LinearConfig.from_recipe_name(name) is not None


@pytest.mark.parametrize("op", ["linear", "norm_linear_sigmoid", "transformer_block"])
@pytest.mark.parametrize("recipe", ["bf16", "fp8_axiswise", OWN])
def test_a_planned_point_is_ready_to_be_timed(op: str, recipe: str) -> None:
    shape = TINY if op == "transformer_block" else SHAPE
    point = PlanPoint(op=op, provider="torch_cpu", recipe=recipe, shape=shape, device="cpu")
    contender = prepare(point, torch.device("cpu"), seed=0, cache_bytes=1 << 20)
    assert 0 < contender.relative_error < load_bench(op).tolerance(recipe)
    assert contender.relative_error == max((contender.output_errors or {}).values())
    assert len(contender.copies) >= 2
    first, again = (contender.call(contender.copies[-1]) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["linear", "norm_linear_sigmoid"])
@pytest.mark.parametrize(
    ("provider", "recipe"),
    [
        ("bf16_compile", "bf16"),
        *(("triton", r) for r in RECIPES if r not in ("bf16", "mxfp8")),
        ("triton_products", "fp8_axiswise"),
        *(("torchao", r) for r in bench.TORCHAO),
    ],
)
def test_forward_and_backward_fit_in_a_graph(op: str, provider: str, recipe: str) -> None:
    shape = {"m": 256, "n": 512, "k": 384}
    point = PlanPoint(op=op, provider=provider, recipe=recipe, shape=shape, device="gpu")
    contender = prepare(point, torch.device("cuda"), seed=0, cache_bytes=1 << 16)
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        eager = contender.call(contender.copies[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = contender.call(contender.copies[0])
    graph.replay()
    torch.cuda.synchronize()
    for got, reference in zip(output, eager, strict=True):
        torch.testing.assert_close(got, reference, rtol=1e-2, atol=1e-2)
