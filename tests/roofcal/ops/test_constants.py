"""Names of fitted constants of all ops, families that some of them stand for, and equations."""

import json

import pytest

from roofcal.core.records import Ceiling
from roofcal.ops.constants import (
    calibrated_pairs,
    calibrated_providers,
    current_equations,
    family_of_constant,
    predicted_with,
)
from roofcal.ops.gemm.model import default_provider
from tests.roofcal.made_up_records import exactly
from tests.roofcal.ops.equation_values import FILE, equation_values

WRITTEN = json.loads(FILE.read_text())


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


@pytest.mark.parametrize(
    ("rates", "meant"),
    [
        ({"triton": 2e15, "cublaslt": 1e15}, "cublaslt"),
        ({"triton": 2e15, "torch_cpu": 1e15}, "torch_cpu"),
        ({"triton": 1e15, "other": 2e15}, "other"),
        ({"triton": 2e15, "other": 1e15}, "triton"),
    ],
)
def test_the_library_is_meant_and_without_it_the_fastest(
    rates: dict[str, float], meant: str
) -> None:
    assert default_provider(constants(**rates), "bf16") == meant
    with pytest.raises(KeyError, match="int8"):
        default_provider(constants(**rates), "int8")


@pytest.mark.parametrize(
    ("name", "number", "unit", "family"),
    [
        # Once, exports decoded every number by the families of op gemm.
        ("gemm.cublaslt.bf16.tile_family", 1.0, "code", "any_tile_split_k"),
        ("cast.torch_compile.fp8_rowwise_dim0.cast_family", 1.0, "code", "inductor"),
        ("mixed_gemm.triton.int4_groupwise_g64.narrow_family", 1.0, "code", "converted"),
        ("gemm.cublaslt.bf16.tile_family", 99.0, "code", None),
        ("gemm.cublaslt.bf16.tile_family", -1.0, "code", None),
        ("gemm.cublaslt.bf16.launch_s", 1.0, "s", None),
        ("compute_units", 1.0, "code", None),
        ("probe_copy.triton.copy.family", 0.0, "code", None),
    ],
)
def test_a_number_stands_for_a_family_of_the_op_in_the_constants_name(
    name: str, number: float, unit: str, family: str | None
) -> None:
    assert family_of_constant(name, exactly(number, unit)) == family


@pytest.mark.parametrize("op", WRITTEN)
def test_an_equation_that_says_something_else_has_another_number(op: str) -> None:
    """Whoever changes an equation gives it another number, so that older constants are refused."""
    assert set(current_equations()) == set(WRITTEN)
    now, written = equation_values()[op], WRITTEN[op]
    again = "write the values: PYTHONPATH=. python -m tests.roofcal.ops.equation_values"
    assert now["equation"] == written["equation"], f"{op} has a new number: {again}"
    families = [family for family in written["seconds"] if family in now["seconds"]]
    assert families
    for family in families:
        assert now["seconds"][family] == pytest.approx(written["seconds"][family], rel=1e-9), (
            f"the equation of {op} changed ({family}): raise EQUATION in its model.py, then {again}"
        )


def test_ops_made_of_others_are_predicted_with_their_constants() -> None:
    of_linears = {"linear", "norm_linear_sigmoid", "transformer_block"}
    assert predicted_with(["cast"]) == {"cast"} | of_linears
    assert predicted_with(["gemm"]) == {"gemm", "mixed_gemm", "all_gather_matmul"} | of_linears
    assert predicted_with(["mixed_gemm"]) == {"mixed_gemm"}
    assert predicted_with([]) == set()
