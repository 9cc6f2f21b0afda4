"""The block on the CPU: right in every recipe, wrong ones caught, one graph for torch.compile."""

import pytest
import torch

from roofcal.ops.transformer_block import bench
from tests.exhaustive import mostly
from tests.roofcal.ops.transformer_block.test_spec import TINY

Tensors = dict[str, torch.Tensor]


def inputs_of(shape: dict[str, int]) -> Tensors:
    generator = torch.Generator().manual_seed(0)
    return bench.make_inputs("bf16", shape, generator, "normal")


@pytest.fixture(scope="module")
def inputs() -> Tensors:
    return inputs_of(TINY)


def test_every_parameter_has_a_gradient_of_its_shape(inputs: Tensors) -> None:
    _, *gradients = bench.build("torch_cpu", "bf16", TINY)(inputs)
    names = [name.removeprefix("grad_") for name in bench.OUTPUTS[1:]]
    assert [g.shape for g in gradients] == [inputs[name].shape for name in names]
    parameters = {name.removesuffix(".weight") for name, _ in bench.Block(TINY).named_parameters()}
    assert {"x", *parameters} == set(names)


def test_a_token_sees_those_before_it_in_its_sequence_alone(inputs: Tensors) -> None:
    other = inputs | {"x": inputs["x"].clone()}
    other["x"][40] = 1.0  # the ninth token of the second sequence
    with torch.no_grad():
        before, after = (bench.exact_block(values) for values in (inputs, other))
    changed = (before != after).any(dim=1).nonzero().flatten().tolist()
    assert changed == list(range(40, 64))


def test_scores_depend_on_the_distance_of_two_positions_alone() -> None:
    rotary = inputs_of(TINY)["rotary"]
    q, k = torch.randn(2, 16).unbind()
    scores = bench.turned(q.expand(32, 16), rotary) @ bench.turned(k.expand(32, 16), rotary).t()
    for distance in range(32):
        diagonal = scores.diagonal(-distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("recipe", mostly(["bf16", "fp8_tensorwise"], "fp8_tensorwise"))
def test_torch_compile_sees_one_graph_with_the_same_gradients(
    recipe: str, inputs: Tensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = bench.build("torch_cpu", recipe, TINY)(inputs)
    compile_whole = torch.compile

    def one_graph(layer: object, **options: object) -> object:
        return compile_whole(layer, backend="aot_eager", fullgraph=True, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(torch, "compile", one_graph)
    monkeypatch.setattr(bench, "check_provider", lambda *_: None)  # which asks for a GPU
    provider = "bf16_compile" if recipe == "bf16" else "triton"
    output = bench.build(provider, recipe, TINY)(inputs)
    for actual, wanted in zip(output, expected, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=0.05, atol=0.05)
