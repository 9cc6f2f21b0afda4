"""Expressions in M, K, N: the numbers that torchao's own code computes.

torchao_2025.json    the code of the seed document torchao_roofline_utils
torchao_0_18_0.json  the file torchao/testing/training/roofline_utils.py of the wheel torchao 0.18.0
Each says under `how` what was run. Keys: device, part, "<recipe> [<role>] [alone|fused]"; values: a
list over shapes_m_k_n, of a time or of the times of all kernels.
"""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import sympy

from roofcal.models.errors import PredictError
from roofcal.models.torchao import SETS, Constants
from roofcal.models.torchao_formulas import (
    ACTIVATION_CASTS,
    FORMATS,
    KERNELS,
    ROLES,
    TRAINING_RECIPES,
    K,
    Kernel,
    M,
    N,
    cast_expression,
    choose_constants,
    evaluate,
    inference_expression,
    linear_expression,
    product_expression,
)
from tests.roofcal.models.runs import SPEC

FILES: Final = {"torchao-2025": "torchao_2025.json", "torchao-0.18.0": "torchao_0_18_0.json"}
GOLDEN: Final[dict[str, Any]] = {
    name: json.loads((Path(__file__).parent / file).read_text()) for name, file in FILES.items()
}
H100, B200 = (SETS["torchao-2025"][f"nvidia-{name}"] for name in ("h100-sxm", "b200"))
SHAPE = (16384, 8192, 28672)


def expression_of(part: str, key: str, constants: Constants) -> sympy.Expr:
    """What a golden number is the value of."""
    recipe, *more = key.split()
    if part == "casts":
        return cast_expression(constants, recipe, more[0], fused=more[1] == "fused")
    if part == "linears":
        return linear_expression(constants, recipe, fused=more == ["fused"])
    product = product_expression(constants, recipe)
    return inference_expression(constants, recipe) - product if "cast" in part else product


@pytest.mark.parametrize(
    ("name", "device", "every"),
    [
        # Devices of a file differ in their constants alone. `make test` tries everything for the
        # first, and for the others all products, which have every rate.
        pytest.param(
            name, device, every, marks=pytest.mark.exhaustive if first == (every > 1) else ()
        )
        for name, data in GOLDEN.items()
        for device, first in zip(data["devices"], (True, *[False] * 9), strict=False)
        for every in (1, 1000)
    ],
)
def test_every_expression_is_torchaos(name: str, device: str, every: int) -> None:
    data = GOLDEN[name]
    golden = {
        (part, key): np.array(expected, dtype=float).reshape(len(expected), -1).sum(axis=1)
        for part, numbers in data["devices"][device].items()
        for number, (key, expected) in enumerate(numbers.items())
        if "products" in part or number % every == 0
    }
    expressions = [expression_of(*which, SETS[name][device]) for which in golden]
    function = sympy.lambdify((M, K, N), expressions, modules="math")  # subs() takes minutes
    by_shape = zip(*(function(*shape) for shape in data["shapes_m_k_n"]), strict=True)
    for (which, expected), seconds in zip(golden.items(), by_shape, strict=True):
        assert seconds == pytest.approx(expected, rel=1e-12), which


def test_the_golden_numbers_cover_every_recipe_role_and_fusion() -> None:
    old, new = (list(GOLDEN[name]["devices"].values()) for name in FILES)
    sums_alone = {"blockwise"}  # torchao has no function per tensor; the sums of linears have it
    assert {key for device in old + new for key in device["casts"]} == {
        f"{recipe} {role} {fused}"
        for recipe in KERNELS.keys() - sums_alone
        for role in ROLES
        for fused in ("alone", "fused")
    }
    linears = {key.split()[0] for device in old + new for key in device["linears"]}
    assert linears == set(TRAINING_RECIPES)
    assert all(device["inference_casts"].keys() == ACTIVATION_CASTS.keys() for device in new)


def test_only_what_can_be_fused_saves_its_read_and_the_weight_is_never_fused() -> None:
    assert Kernel(reads=2, writes=1, fusible=True).moves(fused=True) == 1
    assert Kernel(reads=2, writes=1).moves(fused=True) == 3
    alone, fused = (
        evaluate(linear_expression(H100, "rowwise", fused), *SHAPE) for fused in (False, True)
    )
    saved = 2 * (16384 * 8192 + 16384 * 28672) / 2.4e12 / 0.92  # bf16 of input and grad_output
    assert alone - fused == pytest.approx(saved)


def test_scales_of_blocks_are_whole_and_counted_for_formats_of_blocks_alone() -> None:
    assert inference_expression(B200, "nvfp4").has(sympy.floor(K / 16))
    counted = {recipe for recipe, (_, block) in FORMATS.items() if block}
    assert counted == {recipe for recipe in FORMATS if recipe.startswith(("mx", "nv"))}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("product", "tensorwide"), "unknown recipe of products 'tensorwide'; did you mean 'tens"),
        (("product", "nvfp4"), "no fp4 rate of nvidia-h100-sxm; it has bf16, fp8"),
        (("cast", "rowwize", "input", True), "recipe of casts 'rowwize'; did you mean 'rowwise'?"),
        (("cast", "rowwise", "wait", True), "role 'wait'; .*known: grad_output, input, weight"),
        (("linear", "nvfp4", True), "recipe of linears 'nvfp4'; .*known: bf16"),
        (("inference", "rowwise_with_gw_hp"), "of inference linears 'rowwise_with_gw_hp'"),
    ],
)
def test_an_unknown_name_lists_what_is_known(asked: tuple[Any, ...], message: str) -> None:
    functions: dict[str, Any] = {
        "product": product_expression,
        "cast": cast_expression,
        "linear": linear_expression,
        "inference": inference_expression,
    }
    with pytest.raises(PredictError, match=message):
        functions[asked[0]](H100, *asked[1:])


CHOSEN_SETS: Final = {  # (device, set that is asked for) -> set
    ("nvidia-b200", None): "torchao-2025",
    ("nvidia-b300", None): "torchao-0.18.0",
    ("made-up", None): "datasheet",
    ("nvidia-b200", "torchao-0.18.0"): "torchao-0.18.0",
    ("nvidia-b200", "datasheet"): "datasheet",
}


@pytest.mark.parametrize(("device_and_set", "chosen"), CHOSEN_SETS.items())
def test_the_first_set_that_lists_a_device_is_taken_unless_another_is_asked_for(
    device_and_set: tuple[str, str | None], chosen: str
) -> None:
    assert choose_constants(*device_and_set, SPEC).name == chosen


@pytest.mark.parametrize(
    ("device", "name", "message"),
    [
        ("made-up", None, "no config/devices/made-up.yaml; torchao lists amd-mi300x, nvidia-b200"),
        ("nvidia-b200", "torchao-2052", "did you mean 'torchao-2025'.*known: datasheet, torchao"),
        ("nvidia-b300", "torchao-2025", "device of torchao-2025 'nvidia-b300'.*amd-mi300x"),
    ],
)
def test_an_unknown_set_or_device_lists_what_is_known(
    device: str, name: str | None, message: str
) -> None:
    with pytest.raises(PredictError, match=message):
        choose_constants(device, name, None)
