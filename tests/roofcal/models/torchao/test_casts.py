"""Casts of training and inference linears: torchao's numbers, kernel by kernel."""

from typing import Any

import pytest

from roofcal.models.errors import PredictError
from roofcal.models.torchao.casts import (
    ACTIVATION_CASTS,
    KERNELS,
    ROLES,
    Kernel,
    activation_bytes,
    cast_bytes,
    cast_s,
    casts_s,
    kernel_s,
    traffic_s,
)
from roofcal.models.torchao.constants import SETS, Constants
from tests.roofcal.models.torchao.golden import (
    DEVICES,
    GOLDEN,
    NEW_DEVICES,
    WAYS,
    Formula,
    FormulaOf,
    Way,
    worst_error,
)

H100 = SETS["torchao-2025"]["nvidia-h100-sxm"]
LARGE = (16384.0, 8192.0, 8192.0)
SMALL = (128.0, 256.0, 256.0)


def training_cast(key: str, constants: Constants) -> Formula:
    recipe, role, fused = key.split()

    def formula(sizes: Any, maximum: Any) -> list[Any]:
        m, k, n = sizes
        rows, cols = {"input": (m, k), "weight": (k, n), "grad_output": (m, n)}[role]
        moved = cast_bytes(recipe, role, rows, cols, fused == "fused")
        return [kernel_s(constants, part, maximum) for part in moved]

    return formula


def inference_cast(key: str, constants: Constants) -> Formula:
    def formula(sizes: Any, maximum: Any) -> list[Any]:
        moved = activation_bytes(key, sizes[0], sizes[1])
        return [kernel_s(constants, part, maximum) for part in moved]

    return formula


CASES = [
    *[("casts", training_cast, *listed) for listed in DEVICES],
    *[("inference_casts", inference_cast, *listed) for listed in NEW_DEVICES],
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("part", "formula_of", "name", "device"), CASES)
def test_a_cast_takes_what_torchao_says(
    way: Way, part: str, formula_of: FormulaOf, name: str, device: str
) -> None:
    assert worst_error(way, name, device, part, formula_of) < 1e-12


def test_the_golden_numbers_cover_every_recipe_role_and_fusion() -> None:
    keys = {
        key
        for data in GOLDEN.values()
        for device in data["devices"].values()
        for key in device["casts"]
    }
    sums_alone = {"blockwise"}  # torchao has no function per tensor; test_linears compares the sum
    assert keys == {
        f"{recipe} {role} {fused}"
        for recipe in KERNELS.keys() - sums_alone
        for role in ROLES
        for fused in ("alone", "fused")
    }


def test_the_golden_numbers_cover_every_inference_cast() -> None:
    for device in GOLDEN["torchao-0.18.0"]["devices"].values():
        assert device["inference_casts"].keys() == ACTIVATION_CASTS.keys()


def test_only_what_can_be_fused_saves_its_read() -> None:
    assert Kernel(reads=2, writes=1, fusible=True).moves(fused=True) == 1
    assert Kernel(reads=2, writes=1).moves(fused=True) == 3
    assert Kernel(reads=2, writes=1, fusible=True).moves(fused=False) == 3


def test_a_transposed_weight_is_copied_before_it_is_cast() -> None:
    assert cast_bytes("rowwise", "weight", 10.0, 10.0) == [300.0, 400.0, 300.0]


def test_scales_of_blocks_are_written() -> None:
    forward, backward = cast_bytes("blockwise", "input", 256.0, 256.0, fused=True)
    assert (forward, backward) == (65536 + 512 * 4, 3 * 65536 + 512 * 4)
    assert cast_bytes("blockwise", "weight", 256.0, 256.0) == [3 * 65536 + 4 * 4] * 2


def test_a_short_last_block_has_no_scale() -> None:
    assert activation_bytes("mxfp8", 10.0, 63.0) == [3 * 630 + 10 * 1]


def test_the_weight_is_never_fused() -> None:
    alone, fused = (casts_s(H100, "rowwise", LARGE, f, max) for f in (False, True))
    saved = 2 * 2 * 16384 * 8192 / 2.4e12 / 0.92  # bf16 of input and grad_output
    assert alone - fused == pytest.approx(saved)


def test_traffic_has_no_floor_and_a_kernel_has() -> None:
    assert traffic_s(H100, 2.4e12 * 0.92) == pytest.approx(1.0, rel=1e-15)
    assert kernel_s(H100, 1.0, max) == 2e-6


@pytest.mark.parametrize(
    ("recipe", "role", "message"),
    [
        ("rowwize", "input", "unknown recipe of casts 'rowwize'; did you mean 'rowwise'?"),
        ("rowwise", "wait", "unknown tensor role 'wait'; .*known: grad_output, input, weight"),
    ],
)
def test_an_unknown_name_lists_what_is_known(recipe: str, role: str, message: str) -> None:
    with pytest.raises(PredictError, match=message):
        cast_bytes(recipe, role, 1.0, 1.0)


def test_an_unknown_inference_recipe_lists_what_is_known() -> None:
    with pytest.raises(PredictError, match=r"did you mean 'mxfp.*known: mxfp4, mxfp8, nvf"):
        activation_bytes("mxfp5", 1.0, 1.0)


def test_an_unknown_role_lists_the_roles() -> None:
    with pytest.raises(PredictError, match="known: grad_output, input, weight"):
        cast_s(H100, "rowwise", "output", SMALL, False, max)
