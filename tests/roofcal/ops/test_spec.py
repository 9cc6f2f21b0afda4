"""What every op declares fits together."""

from importlib import import_module

import numpy as np
import pytest

from roofcal.ops import BY_NAME, OPS
from roofcal.ops.spec import OpSpec, Unsupported


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_work_is_declared_for_every_recipe(op: OpSpec) -> None:
    shape = dict.fromkeys(op.axes, 64)
    for recipe in op.recipes:
        work = op.work(recipe, shape)
        assert work.flops >= 0
        assert work.dram_bytes >= 0
    assert op.regime(shape)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_an_unknown_recipe_is_an_error(op: OpSpec) -> None:
    with pytest.raises(KeyError):
        op.work("bf61", dict.fromkeys(op.axes, 64))


def test_every_op_has_a_name_of_its_own_and_providers_on_both_backends() -> None:
    assert len(BY_NAME) == len(OPS)
    for op in OPS:
        assert op.providers_on("cuda")
        assert op.providers_on("cpu")
        assert op.providers_on("tpu") == ()


def test_probes_come_first_so_that_a_broken_device_shows_early() -> None:
    roles = [op.role for op in OPS]
    assert roles == sorted(roles)
    assert {op.role for op in OPS} == {"probe", "study"}


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_products_and_casts_have_the_axes_that_models_of_time_read(op: OpSpec) -> None:
    axes = {"product": ("m", "n", "k"), "cast": ("rows", "cols")}
    assert op.computes is None or op.axes == axes[op.computes]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_shapes_are_refused_alike_one_by_one_and_as_vectors(op: OpSpec) -> None:
    sizes = (1, 16, 17, 120, 128, 129)
    for provider in op.every_provider:
        for recipe in op.recipes:
            vectors = op.refused_axes(provider, recipe, dict.fromkeys(op.axes, np.array(sizes)))
            for place, size in enumerate(sizes):
                shape = dict.fromkeys(op.axes, size)
                refused = {name: bool(flags[place]) for name, flags in vectors.items()}
                assert op.refused_axes(provider, recipe, shape) == refused
                assert op.takes(provider, recipe, shape) == (not any(refused.values()))


def test_each_limit_that_a_size_breaks_is_named() -> None:
    op, recipe = BY_NAME["mixed_gemm"], "int4_groupwise_g128"
    assert op.refused_axes("triton_specialised", recipe, {"m": 16, "n": 100, "k": 192}) == {
        ("k", "multiple"): True,
        ("m", "least"): True,
    }
    assert not op.refused_axes("torch_cpu", "bf16", {"m": 1, "n": 1, "k": 1})


@pytest.mark.parametrize("name", ["gemm", "mixed_gemm"])
def test_a_pair_that_an_op_does_not_have_is_one_that_its_bench_refuses(name: str) -> None:
    op, shape = BY_NAME[name], {"m": 128, "n": 128, "k": 128}
    build = import_module(f"roofcal.ops.{name}.bench").build
    pairs = [(one, recipe) for one in op.every_provider for recipe in op.recipes]
    missing = [pair for pair in pairs if not op.has_pair(*pair)]
    assert ("triton", "bf16") in missing
    assert ("triton", "fp8_axiswise" if name == "gemm" else "int4_groupwise_g128") not in missing
    for provider, recipe in missing:
        with pytest.raises(Unsupported, match=r"no product of recipe|fp8 products only"):
            build(provider, recipe, shape)
