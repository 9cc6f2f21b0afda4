"""Providers on the CPU are right, wrong products are caught, refusals say why."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernels.int4 import packing as int4_packing
from roofcal.ops.bench import arranged_inputs, largest_error, load_bench
from roofcal.ops.mixed_gemm import bench
from roofcal.ops.mixed_gemm.spec import OP
from roofcal.ops.spec import Unsupported

SHAPE = {"m": 5, "n": 64, "k": 256}
INT4 = [recipe for recipe in OP.recipes if recipe.startswith("int4")]
ON_CPU = [("torch_cpu", recipe) for recipe in OP.recipes if recipe != "fp8_axiswise"]
ON_CPU += [("tinygemm", recipe) for recipe in INT4]
gpu = pytest.mark.gpu


def generator(device: str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(3)


def inputs_and_output(
    provider: str, recipe: str, shape: dict[str, int] | None = None, device: str = "cpu"
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    size = shape or SHAPE
    inputs = bench.make_inputs(recipe, size, generator(device), "normal")
    call = bench.build(provider, recipe, size)
    return inputs, call(bench.arrange(provider, recipe, inputs))


@pytest.mark.parametrize(("provider", "recipe"), ON_CPU)
def test_a_product_is_right(provider: str, recipe: str) -> None:
    inputs, output = inputs_and_output(provider, recipe)
    assert output.shape == (5, 64)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


@gpu
@pytest.mark.parametrize("tokens", [1, 16, 64])
@pytest.mark.parametrize("recipe", INT4)
@pytest.mark.parametrize("provider", ["triton", "triton_chained", "tinygemm", "gemlite"])
def test_a_product_is_right_on_a_gpu(provider: str, recipe: str, tokens: int) -> None:
    try:
        inputs, output = inputs_and_output(
            provider, recipe, {"m": tokens, "n": 448, "k": 2048}, "cuda"
        )
    except Unsupported as refusal:
        pytest.skip(str(refusal))
    allowed = largest_error(load_bench("mixed_gemm"), provider, recipe)
    assert bench.relative_error(recipe, inputs, output) <= allowed


def test_rounding_weights_and_multiplying_them_are_told_apart() -> None:
    order = ("fp8_weight_only", "fp8_tensorwise", "int4_groupwise_g32", "int4_groupwise_g128")
    errors = []
    for recipe in order:
        inputs, output = inputs_and_output("torch_cpu", recipe)
        rounded = bench.quantisation_error(recipe, inputs, plain)
        assert rounded is not None
        assert bench.relative_error(recipe, inputs, output) < 0.2 * rounded
        errors.append(rounded)
    assert errors == sorted(errors)
    assert 0.02 < errors[0] < 0.04 < errors[-1] < 0.14
    assert bench.quantisation_error("bf16", plain(), plain) == 0


def plain() -> dict[str, torch.Tensor]:
    """The draws of `inputs_and_output` before they are quantised."""
    return bench.make_inputs("bf16", SHAPE, generator(), "normal")


def test_more_rows_than_are_dequantised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_CHUNK", 24)
    whole = int4_packing.quantise(bench.make_inputs("bf16", SHAPE, generator(), "normal")["b"], 64)
    inputs, output = inputs_and_output("torch_cpu", "int4_groupwise_g64")
    assert torch.equal(inputs["b"], whole.q)
    assert torch.equal(inputs["scale_b"], whole.scales)
    assert bench.relative_error("int4_groupwise_g64", inputs, output) <= 5e-3
    assert not bench.relative_error("int4_groupwise_g64", inputs, output.roll(24, 1)) <= 5e-3


@pytest.mark.parametrize("provider", ["triton", "triton_chained", "triton_specialised"])
def test_a_cpu_is_unsupported_with_the_reason(provider: str) -> None:
    with pytest.raises(Unsupported, match=f"provider '{provider}' needs a GPU"):
        inputs_and_output(provider, "int4_groupwise_g64")


class _Layer:
    """What GemLite's class keeps of weights: [k, n] matrices and the arguments of its kernels."""

    def __init__(self, bits: int, **options: Any) -> None:
        assert bits == 4
        assert options["input_dtype"] == options["output_dtype"] == "BF16"
        self._options = options

    def pack(self, q: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | int) -> None:
        assert q.shape == (self._options["out_features"], self._options["in_features"])
        shift = torch.tensor(zeros) if isinstance(zeros, int) else zeros.t()
        self._tensors = [q.t(), scales.t(), shift, torch.tensor(0.0)]

    def get_tensor_args(self) -> list[torch.Tensor]:
        return self._tensors

    def get_meta_args(self) -> list[int]:
        return [0, 4, self._options["group_size"]]


def _forward(
    a: torch.Tensor, bias: None, tensors: list[torch.Tensor], how: list[int]
) -> torch.Tensor:
    q, scales, zeros = (tensor.double() for tensor in tensors[:3])
    spread = [t.repeat_interleave(how[2], dim=0) if t.ndim else t for t in (scales, zeros)]
    return (a.double() @ ((q - spread[1]) * spread[0])).bfloat16()


@pytest.fixture
def gemlite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, and a library with GemLite's interface (version 0.6) that multiplies on the CPU."""
    library = SimpleNamespace(
        GemLiteLinear=_Layer, DType=SimpleNamespace(BF16="BF16"), forward_functional=_forward
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "gemlite", library)


@pytest.mark.usefixtures("gemlite")
@pytest.mark.parametrize("recipe", INT4)
def test_gemlite_gets_weights_scales_and_zeros_as_it_wants_them(recipe: str) -> None:
    inputs, output = inputs_and_output("gemlite", recipe)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


def test_a_missing_gemlite_is_unsupported_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unsupported, match="provider 'gemlite' needs a GPU"):
        bench.build("gemlite", "int4_groupwise_g64", SHAPE)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "gemlite", None)
    with pytest.raises(Unsupported, match="pip install gemlite"):
        bench.build("gemlite", "int4_groupwise_g64", SHAPE)


def test_a_library_that_rounds_more_often_has_a_bound_of_its_own() -> None:
    for op in ("mixed_gemm", "probe_mixed_gemm"):
        bench_module = load_bench(op)
        assert largest_error(bench_module, "gemlite", INT4[0]) == 3e-2
        assert largest_error(bench_module, "triton", INT4[0]) == bench_module.tolerance(INT4[0])
    assert largest_error(load_bench("gemm"), "gemlite", "bf16") == 5e-3


def test_inputs_that_cannot_be_cut_in_groups_are_unsupported() -> None:
    with pytest.raises(Unsupported, match=r"int4 weights \[64, 100\]: k: got 100"):
        bench.make_inputs("int4_groupwise_g64", SHAPE | {"k": 100}, generator(), "normal")


def test_arranging_is_left_to_the_ops_that_need_it() -> None:
    inputs: Any = {"a": torch.zeros(1)}
    assert arranged_inputs(load_bench("gemm"), "cublaslt", "bf16", inputs) is inputs
    assert arranged_inputs(load_bench("mixed_gemm"), "cublaslt", "bf16", inputs) is inputs
    packed = arranged_inputs(
        load_bench("mixed_gemm"),
        "tinygemm",
        "int4_groupwise_g64",
        bench.make_inputs("int4_groupwise_g64", SHAPE, generator(), "normal"),
    )
    assert set(packed) == {"a", "packed", "scales_and_zeros"}
