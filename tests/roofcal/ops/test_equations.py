"""Whoever changes an equation gives it another number, so that older constants are refused."""

import json

import pytest

from roofcal.ops.constants import current_equations, predicted_with
from tests.roofcal.ops.equation_values import FILE, equation_values

WRITTEN = json.loads(FILE.read_text())


def test_every_op_with_a_number_is_held_to_its_values() -> None:
    assert set(current_equations()) == set(WRITTEN)


@pytest.mark.parametrize("op", WRITTEN)
def test_an_equation_that_says_something_else_has_another_number(op: str) -> None:
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
