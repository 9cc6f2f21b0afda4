"""Names of fitted constants of products, and whose are meant where nobody is named."""

import pytest

from roofcal.core.records import Ceiling
from roofcal.ops.gemm.fitted import default_provider, old_names, pairs, providers


def constants(**rates: float) -> dict[str, Ceiling]:
    """A launch and a ceiling of bf16 by each provider."""
    found = {}
    for provider, rate in rates.items():
        for name, value in (("launch_s", 1e-6), ("ceiling_flops_per_s", rate)):
            found[f"gemm.{provider}.bf16.{name}"] = Ceiling(
                value=value, ci95_low=value, ci95_high=value, unit="1", evidence="made up"
            )
    return found


def test_pairs_are_named_once_and_of_op_gemm_alone() -> None:
    known = constants(cublaslt=1e15, triton=2e15)
    known["cast.triton.fp8_tensorwise.fixed_s"] = known["gemm.triton.bf16.launch_s"]
    known["launch_graph_s"] = known["gemm.triton.bf16.launch_s"]
    assert pairs(known) == [("cublaslt", "bf16"), ("triton", "bf16")]
    assert providers(known, "bf16") == ["cublaslt", "triton"]
    assert providers(known, "fp8_axiswise") == []


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
    known = constants(triton=1e15)
    assert old_names(known) == []
    known["gemm.bf16.launch_s"] = known["gemm.triton.bf16.launch_s"]
    assert old_names(known) == ["gemm.bf16.launch_s"]
    assert pairs(known) == [("triton", "bf16")]
