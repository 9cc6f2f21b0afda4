"""What a claim may not be, whoever wrote it."""

from typing import Any

import pytest
from pydantic import ValidationError

from roofcal.claims.schema import Claim, Expression, Ledger
from tests.roofcal.claims.ledgers import SPEEDUP, ledger

TIME: dict[str, Any] = {"op": "gemm", "quantity": "time_us", "value": 1}


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ({"quantity": "tflops", "value": 1}, "either `op` with `points`, or `constant`"),
        (TIME | {"constant": "launch_graph_s"}, "either `op` with `points`, or `constant`"),
        (TIME | {"quantity": "speedup"}, "a speedup needs `against`"),
        (TIME | {"against": {"recipe": "bf16"}}, "a speedup needs `against`"),
        (SPEEDUP | {"pick": "median"}, "a speedup is of single points"),
        (TIME | {"tolerance": 0}, "`about` needs a tolerance"),
        ({"constant": "launch_graph_s", "quantity": "tflops"}, "is a time_us, no tflops"),
        (
            {"constant": "launch_graph_s", "quantity": "time_us", "points": {"recipe": "bf16"}},
            "a constant is one number",
        ),
        ({"constant": "dram_read_bytes_per_s", "quantity": "time_us"}, "fraction_of_bandwidth"),
        ({"constant": "link.send.2.latency_s", "quantity": "fraction_of_link"}, "is a time_us"),
        (
            {"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_bandwidth"},
            "link",
        ),
        ({"constant": "link.send.0.latency_s", "quantity": "time_us"}, "constant"),
        (TIME | {"quantity": "fraction_of_link"}, "of no points"),
        (TIME | {"relation": "=="}, "relation"),
        (TIME | {"value": 0}, "greater than 0"),
    ],
)
def test_a_test_that_makes_no_sense_is_refused(test: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Expression.model_validate(test)


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        ({}, "either `test` or `untestable`"),
        ({"test": TIME, "untestable": "why"}, "either `test` or `untestable`"),
        ({"test": SPEEDUP}, "test.value is missing"),
        ({"test": TIME, "rows": [{"cube": 8, "value": 1}]}, "not in both"),
        ({"untestable": "why", "rows": [{"cube": 8}]}, "has no `value`"),
        ({"untestable": "why", "id": "Not an id"}, "id"),
    ],
)
def test_a_claim_that_cannot_be_told_is_refused(claim: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Claim.model_validate({"id": "c", "says": "so"} | claim)


def test_a_ledger_needs_claims() -> None:
    with pytest.raises(ValidationError, match="claims"):
        Ledger.model_validate(ledger())
