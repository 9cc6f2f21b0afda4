"""Names of fitted constants of all ops, and the families that some of them stand for."""

import pytest

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import encode_family
from roofcal.ops.cast.model import FAMILIES as CASTS
from roofcal.ops.constants import (
    calibrated_pairs,
    calibrated_providers,
    decode_family,
    family_of_constant,
    missing_constants,
    names_without_provider,
    values_of_pair,
)
from roofcal.ops.gemm.model import default_provider
from roofcal.ops.gemm.tiles import FAMILIES as PRODUCTS
from roofcal.ops.mixed_gemm.model import FAMILIES as NARROW_PRODUCTS


def exactly(value: float, unit: str = "1") -> Ceiling:
    return Ceiling(value=value, ci95_low=value, ci95_high=value, unit=unit, evidence="made up")


def constants(**rates: float) -> dict[str, Ceiling]:
    """A launch and a ceiling of bf16 by each provider."""
    return {
        f"gemm.{provider}.bf16.{name}": exactly(value)
        for provider, rate in rates.items()
        for name, value in (("launch_s", 1e-6), ("ceiling_flops_per_s", rate))
    }


def test_pairs_are_named_once_and_of_their_op_alone() -> None:
    names = constants(cublaslt=1e15, triton=2e15)
    names["cast.triton.fp8_tensorwise.fixed_s"] = exactly(1e-6)
    names["mixed_gemm.triton.int4_groupwise_g64.narrow_family"] = exactly(0.0)
    names["launch_graph_s"] = exactly(1e-6)
    assert calibrated_pairs(names, "gemm") == [("cublaslt", "bf16"), ("triton", "bf16")]
    assert calibrated_pairs(names, "mixed_gemm") == [("triton", "int4_groupwise_g64")]
    assert calibrated_pairs({}, "mixed_gemm") == []
    assert calibrated_providers(names, "gemm", "bf16") == ["cublaslt", "triton"]
    assert calibrated_providers(names, "gemm", "fp8_axiswise") == []


@pytest.mark.parametrize("library", ["cublaslt", "torch_cpu"])
def test_the_library_is_meant_even_where_another_is_faster(library: str) -> None:
    assert default_provider(constants(triton=2e15, **{library: 1e15}), "bf16") == library


def test_without_the_library_the_fastest_is_meant() -> None:
    assert default_provider(constants(triton=1e15, other=2e15), "bf16") == "other"
    assert default_provider(constants(triton=2e15, other=1e15), "bf16") == "triton"


def test_a_recipe_nobody_has_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="int8"):
        default_provider(constants(triton=1e15), "int8")


def test_names_without_a_provider_are_old() -> None:
    names = constants(triton=1e15)
    assert names_without_provider(names) == []
    names["gemm.bf16.launch_s"] = exactly(1e-6)
    assert names_without_provider(names) == ["gemm.bf16.launch_s"]
    assert calibrated_pairs(names, "gemm") == [("triton", "bf16")]


def test_values_of_a_pair_are_those_that_were_fitted() -> None:
    values = values_of_pair(constants(triton=1e15), "gemm.triton.bf16", ("launch_s", "wave_s"))
    assert values == {"launch_s": 1e-6}
    with pytest.raises(KeyError, match=r"gemm\.mkl\.bf16"):
        values_of_pair(constants(triton=1e15), "gemm.mkl.bf16", ("launch_s",))


def test_a_model_names_the_constants_without_which_it_has_no_times() -> None:
    assert missing_constants(constants(triton=1e15)) == ["gemm.triton.bf16.tile_family"]
    assert missing_constants(["launch_graph_s", "link.all_gather.8.latency_s"]) == []


@pytest.mark.parametrize("families", [PRODUCTS, CASTS, NARROW_PRODUCTS])
def test_a_family_comes_back_from_its_number(families: dict[str, object]) -> None:
    for family in families:
        assert decode_family(families, encode_family(families, family).value) == family
    with pytest.raises(IndexError):
        decode_family(families, len(families))


def test_a_number_stands_for_a_family_of_the_op_in_the_constants_name() -> None:
    """Once, exports decoded every number by the families of op gemm."""
    one = exactly(1.0, "code")
    assert family_of_constant("gemm.cublaslt.bf16.tile_family", one) == "any_tile_split_k"
    name = "cast.torch_compile.fp8_rowwise_dim0.cast_family"
    assert family_of_constant(name, one) == "padded_1024"
    name = "mixed_gemm.triton.int4_groupwise_g64.narrow_family"
    assert family_of_constant(name, one) == "tiles"


def test_what_is_no_family_has_no_name() -> None:
    assert family_of_constant("gemm.cublaslt.bf16.tile_family", exactly(99.0, "code")) is None
    assert family_of_constant("gemm.cublaslt.bf16.tile_family", exactly(-1.0, "code")) is None
    assert family_of_constant("gemm.cublaslt.bf16.launch_s", exactly(1.0, "s")) is None
    assert family_of_constant("compute_units", exactly(1.0, "code")) is None
    assert family_of_constant("probe_copy.triton.copy.family", exactly(0.0, "code")) is None
