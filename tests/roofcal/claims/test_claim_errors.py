"""An expression with a name that its op does not have is named, with the nearest that it has."""

from typing import Any

import pytest

from roofcal.claims.ledgers import claim_errors
from roofcal.claims.schema import AwaitedOp, Claim
from tests.roofcal.claims.ledgers import SPEEDUP

AWAITED = {"later": AwaitedOp(axes=["m"], recipes=["bf16"], providers=["fused"])}
ROW = {"cube": 64, "value": 1.5}


def said(test: dict[str, Any], *rows: dict[str, float]) -> list[str]:
    claim = Claim.model_validate(
        {"id": "c", "says": "so", "test": test, "rows": list(rows) or [ROW]}
    )
    return list(claim_errors("x.yaml: c", claim, AWAITED))


def points(**changes: Any) -> dict[str, Any]:
    return SPEEDUP | {"points": SPEEDUP["points"] | changes}


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (SPEEDUP | {"op": "gem"}, "unknown op 'gem'; did you mean 'gemm'?"),
        (points(recipe="bf61"), "points: unknown recipe 'bf61'; did you mean 'bf16'?"),
        (points(providr="x"), "points: unknown column 'providr'; did you mean 'provider'?"),
        (points(provider="cublas"), "unknown provider 'cublas'; did you mean 'cublaslt'?"),
        (points(rows=3), "points: unknown column 'rows'"),
        (points(status="ok"), "points: unknown column 'status'"),
        (points(regime="huge"), "unknown regime 'huge'"),
        (points(distribution="ones"), "unknown distribution 'ones'"),
        (points(m="many"), "m is a whole number above 0 (got 'many')"),
        (SPEEDUP | {"against": {"recipe": "fp9"}}, "against: unknown recipe 'fp9'"),
        (
            SPEEDUP | {"as_source": {"label": "l", "points": {"cash": "hot"}}},
            "as_source.points: unknown column 'cash'; did you mean 'cache'?",
        ),
    ],
)
def test_a_name_that_the_op_does_not_have(test: dict[str, Any], says: str) -> None:
    (error,) = said(test)
    assert error.startswith("x.yaml: c: ")
    assert says in error


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"m": 64, "value": 1}, "has no n, k"),
        ({"cube": 64, "m": 64, "value": 1}, "has a cube and other sizes"),
        ({"cube": 0.5, "value": 1}, "cube is a whole number above 0"),
    ],
)
def test_a_row_without_a_shape(row: dict[str, float], says: str) -> None:
    (error,) = said(SPEEDUP, row)
    assert says in error


def test_an_awaited_op_is_checked_by_the_names_that_are_awaited() -> None:
    fused = {"op": "later", "points": {"provider": "fused"}, "against": {"recipe": "bf16"}}
    assert said(SPEEDUP | fused, {"m": 64, "value": 1}) == []
    (error,) = said(SPEEDUP | fused | {"points": {"provider": "fuse"}}, {"m": 64, "value": 1})
    assert "did you mean 'fused'?" in error


def test_a_recipe_that_was_written_down_may_be_named() -> None:
    fits = SPEEDUP | {"op": "linear", "points": {"recipe": "fp8_axiswise", "provider": "torchao"}}
    assert said(fits) == []
