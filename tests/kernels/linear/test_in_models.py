"""Float8Linear in models: autocast, checkpoints, export, parameters, and several processes."""

import copy
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch.nn.utils import parametrize, prune
from torch.utils.checkpoint import checkpoint

from kernels.linear.layer import Float8Linear, convert_linears, linear
from tests.exhaustive import mostly
from tests.kernels.linear import linear_ranks
from tests.kernels.run_ranks import run_ranks

RECIPES = ("axiswise", "tensorwise", "blockwise", "axiswise_with_gw_hp")


def small_model(dtype: torch.dtype = torch.float32) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64, dtype=dtype),
        torch.nn.GELU(),
        torch.nn.Linear(64, 32, dtype=dtype),
        torch.nn.Linear(32, 10, dtype=dtype),
    )


def gradients(model: torch.nn.Module, y: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(y.float().square().sum(), list(model.parameters())))


def assert_same(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    assert [x.dtype for x in actual] == [x.dtype for x in expected]
    assert all(torch.equal(a, b) for a, b in zip(actual, expected, strict=True))


def test_all_linears_that_fp8_products_take_are_converted() -> None:
    model = small_model()
    weights = [parameter.data_ptr() for parameter in model.parameters()]
    with pytest.raises(ValueError, match="did you mean axiswise"):  # before anything is converted
        convert_linears(model, "axiswize")
    assert not any(isinstance(module, Float8Linear) for module in model)
    assert convert_linears(model, "tensorwise") is model
    assert [type(m) is Float8Linear for m in (model[0], model[2], model[3])] == [True, True, False]
    assert [parameter.data_ptr() for parameter in model.parameters()] == weights
    assert type(convert_linears(torch.nn.Linear(16, 16))) is Float8Linear


def test_a_filter_chooses_which_linears_are_converted() -> None:
    model = torch.nn.ModuleDict({"body": small_model(), "head": torch.nn.Linear(32, 32)})
    convert_linears(
        model, should_convert=lambda name, linear: name != "head" and linear.in_features == 32
    )
    assert [name for name, m in model.named_modules() if type(m) is Float8Linear] == ["body.0"]


def test_hooks_stay_and_can_be_removed() -> None:
    model, seen = small_model(), []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: seen.append(name)

    linear = model[0]
    handles = [
        linear.register_forward_pre_hook(note("before")),
        linear.register_forward_hook(note("after")),
        linear.register_full_backward_hook(note("backward")),
        linear.register_state_dict_post_hook(note("state")),
        linear.register_load_state_dict_pre_hook(lambda m, *_: seen.append(type(m).__name__)),
    ]
    convert_linears(model)
    model(torch.randn(16, 32).requires_grad_()).sum().backward()
    model.load_state_dict(model.state_dict())
    assert seen == ["before", "after", "backward", "state", "Float8Linear"]
    for handle in handles:
        handle.remove()
    model(torch.randn(16, 32)).sum().backward()
    assert len(seen) == 5


def test_a_linear_under_several_names_stays_if_one_of_them_does() -> None:
    def shared() -> Any:
        block = torch.nn.Sequential(torch.nn.Linear(32, 32))
        return torch.nn.ModuleDict({"a": block, "b": block, "c": block[0]})

    model: Any = convert_linears(shared())
    assert model["a"][0] is model["c"]
    assert type(model["c"]) is Float8Linear
    for kept in ("b.0", "c"):
        model = convert_linears(shared(), should_convert=lambda *of: of[0] != kept)  # noqa: B023
        assert type(model["c"]) is torch.nn.Linear


def test_what_a_linear_has_beside_parameters_stays() -> None:
    embedding, model = (
        torch.nn.Embedding(48, 32),
        torch.nn.Sequential(torch.nn.Linear(32, 48, False)),
    )
    linear = cast(Any, model[0])
    linear.weight, linear.note = embedding.weight, "mine"
    linear.weight.requires_grad_(False)
    model.eval()
    convert_linears(model)
    assert model[0] is linear
    assert not linear.training
    assert list(model.state_dict()) == ["0.weight"]
    assert linear.note == "mine"
    assert linear.weight is embedding.weight
    assert not linear.weight.requires_grad
    assert type(copy.deepcopy(model)[0]) is Float8Linear
    with torch.device("meta"):
        assert convert_linears(small_model())(torch.empty(16, 32)).shape == (16, 10)


PARAMETRIZED: dict[str, Callable[[torch.nn.Module], Any]] = {
    "weight_norm": torch.nn.utils.weight_norm,
    "spectral_norm": torch.nn.utils.spectral_norm,
    "pruned": lambda linear: prune.l1_unstructured(linear, "weight", 0.5),
    "parametrized weight_norm": torch.nn.utils.parametrizations.weight_norm,
    "parametrized spectral_norm": torch.nn.utils.parametrizations.spectral_norm,
    "parametrized bias": lambda linear: parametrize.register_parametrization(
        linear, "bias", torch.nn.Tanh()
    ),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@pytest.mark.parametrize("kind", PARAMETRIZED)
def test_a_weight_that_is_computed_is_computed_still(kind: str) -> None:
    plain: Any
    same: Any
    plain, same = (torch.nn.Linear(32, 48).eval() for _ in range(2))
    same.load_state_dict(plain.state_dict())
    for module in (plain, same):
        torch.manual_seed(0)
        PARAMETRIZED[kind](module)
    model = torch.nn.Sequential(same)
    names = list(model.state_dict())
    convert_linears(model, "axiswise")
    assert isinstance(same, Float8Linear)
    assert list(model.state_dict()) == names
    x = torch.randn(16, 32)
    expected = plain(x)
    assert torch.equal(model(x), linear(x, plain.weight, plain.bias, same.plan))
    assert 0 < float((model(x) - expected).norm() / expected.norm()) < 0.1
    assert all(gradient.any() for gradient in gradients(model, model(x)))
    if parametrize.is_parametrized(same):
        parametrize.remove_parametrizations(same, next(iter(plain.parametrizations)))
        assert type(same) is Float8Linear


def left(reason: str) -> tuple[torch.nn.Module, str]:
    linear: Any = torch.nn.Linear(32, 32)
    if reason == "subclass":
        return torch.nn.MultiheadAttention(
            32, 4
        ).out_proj, "NonDynamicallyQuantizableLinear is a sub"
    if reason == "features":
        return torch.nn.Linear(32, 10), "out_features: wanted a multiple of 16 .*, got 10"
    if reason == "forward":
        linear.forward = lambda x: x
        return linear, "it has a forward of its own"
    if reason == "recipe":
        return Float8Linear(32, 32, recipe="tensorwise"), "it has the recipe .*tensorwise.* already"
    if reason == "attribute":
        linear.plan = "mine"
        return linear, "it has an attribute `recipe` or `plan` of its own"

    class Sharded(torch.Tensor):
        pass

    linear.weight = torch.nn.Parameter(linear.weight.detach().as_subclass(Sharded))
    return linear, "its weight is a Sharded"


@pytest.mark.parametrize(
    "reason", ["subclass", "features", "forward", "recipe", "attribute", "weight"]
)
def test_a_linear_that_stays_is_named_with_the_reason(reason: str) -> None:
    linear, message = left(reason)
    kind = type(linear)
    model: Any = torch.nn.ModuleDict({"body": small_model()[:1], "head": linear})
    with pytest.warns(UserWarning, match=rf"left as they are: head \({message}"):
        convert_linears(model, "axiswise")
    assert type(model["body"][0]) is Float8Linear
    assert type(linear) is kind
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        convert_linears(model, should_convert=lambda name, _: name != "head")


def test_a_forward_that_is_wrapped_as_accelerate_does_runs_in_float8() -> None:
    """accelerate.hooks.add_hook_to_module, which device_map puts around every module."""
    model: Any = small_model()[:1]
    wrapped: Any = model[0]
    calls = []

    def forward(module: Any, x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return module._old_forward(x)

    wrapped._old_forward = wrapped.forward
    wrapped.forward = functools.update_wrapper(
        functools.partial(forward, wrapped), wrapped._old_forward
    )
    convert_linears(model)
    x = torch.randn(16, 32)
    assert torch.equal(model(x), linear(x, wrapped.weight, wrapped.bias, wrapped.plan))
    assert calls == [(16, 32)]


def test_a_computed_weight_cannot_be_shared_by_another_linear() -> None:
    pruned = torch.nn.Linear(32, 48)
    prune.identity(pruned, "weight")
    with pytest.raises(ValueError, match=r"^linear: wanted one whose weight is a parameter"):
        Float8Linear.from_linear(pruned)


@pytest.mark.parametrize("recipe", RECIPES)
def test_state_dicts_go_from_linear_to_float8_and_back(recipe: str) -> None:
    plain, other = small_model(), convert_linears(small_model(), recipe)
    other.load_state_dict(plain.state_dict())
    back = small_model()
    back.load_state_dict(other.state_dict())
    x = torch.randn(5, 32)
    assert torch.equal(back(x), plain(x))
    assert torch.equal(convert_linears(plain, recipe)(x), other(x))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_the_types_that_it_gives_a_linear(
    recipe: str, dtype: torch.dtype, device: torch.device
) -> None:
    plain = small_model().to(device)
    model = convert_linears(copy.deepcopy(plain), recipe)
    x = torch.randn(32, 32, device=device)
    with torch.autocast(device.type, dtype):
        y, expected = model(x), plain(x)
    assert y.dtype == expected.dtype == dtype
    torch.testing.assert_close(y, expected, rtol=0.2, atol=0.1)
    assert [g.dtype for g in gradients(model, y)] == [torch.float32] * 6


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointed_activations_give_the_same_gradients(
    recipe: str, use_reentrant: bool, device: torch.device
) -> None:
    model = convert_linears(small_model(torch.bfloat16), recipe).to(device)
    x = torch.randn(16, 32, dtype=torch.bfloat16, device=device, requires_grad=True)
    recomputed: Any = checkpoint(model, x, use_reentrant=use_reentrant)
    recomputed.float().square().sum().backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    assert_same(found, gradients(model, model(x)))


@pytest.mark.parametrize("recipe", mostly(RECIPES, "tensorwise"))
def test_compiled_autocast_and_checkpoints_are_one_graph(recipe: str) -> None:
    torch.compiler.reset()
    model = convert_linears(small_model(), recipe)

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            y: torch.Tensor = checkpoint(model, x, use_reentrant=False)
        return y

    x = torch.randn(32, 32)
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    assert_same(gradients(model, compiled(x)), gradients(model, step(x)))


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "mode"),
    [*((recipe, "default") for recipe in RECIPES), ("tensorwise", "reduce-overhead")],
)
def test_inductor_and_its_graphs_give_the_gradients_of_eager_calls(recipe: str, mode: str) -> None:
    """Inductor may keep values unrounded that eager calls round to bf16."""
    torch.compiler.reset()
    model = convert_linears(small_model(torch.bfloat16), recipe).cuda()
    compiled = torch.compile(model, mode=mode, fullgraph=True)
    for _ in range(4):  # the third call replays a graph
        x = torch.randn(64, 32, dtype=torch.bfloat16, device="cuda")
        made = [g.clone() for g in gradients(model, compiled(x))]
        for actual, expected in zip(made, gradients(model, model(x)), strict=True):
            error = (actual.float() - expected.float()).norm() / expected.float().norm()
            assert float(error) <= 0.05


@pytest.mark.parametrize("recipe", mostly(RECIPES, "tensorwise", "blockwise"))
def test_inference_is_exported_for_any_number_of_rows(recipe: str) -> None:
    model = convert_linears(small_model(), recipe).eval()
    rows = torch.export.Dim("rows", min=2, max=4096)
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(32, 32),), dynamic_shapes=({0: rows},))
        for count in (2, 17, 32):
            x = torch.randn(count, 32)
            assert torch.equal(program.module()(x), model(x))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["ddp", "fsdp"])
def test_two_processes_have_the_gradients_of_one(what: str, tmp_path: Path) -> None:
    """By gloo on CPUs; by NCCL where there are two GPUs."""
    run_ranks(linear_ranks.main, 2, what, tmp_path, limit_s=150)
