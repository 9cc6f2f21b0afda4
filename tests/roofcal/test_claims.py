"""The ledger of this project, how rows of a table become claims, and what a claim may not be."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from roofcal.claims import (
    Claim,
    ClaimError,
    Entry,
    Expression,
    claim_errors,
    load_claims,
)
from tests.paths import ROOT
from tests.roofcal.claim_ledgers import SPEEDUP, entries, written

CLAIMS = ROOT / "config/claims"


@pytest.fixture(scope="module")
def ours() -> list[Entry]:
    return load_claims(CLAIMS)


def of(ours: list[Entry], start: str) -> list[Entry]:
    return [entry for entry in ours if entry.id.startswith(start)]


def test_every_row_of_the_sources_is_a_claim(ours: list[Entry]) -> None:
    assert len(of(ours, "torchao-pr940-gemm-tensorwise")) == 16
    assert len(of(ours, "torchao-pr940-gemm-axiswise")) == 16
    assert len(of(ours, "torchao-pr940-block")) == 8 * 4 + 3
    assert len(of(ours, "symm-mem-all-gather")) == 9
    assert len({entry.id for entry in ours}) == len(ours)
    assert all(entry.value is None or math.isfinite(entry.value) for entry in ours)


@pytest.mark.parametrize(
    ("start", "value"),
    [
        ("torchao-pr940-gemm-axiswise-slow-accum-2048", 0.567655),
        ("torchao-pr940-block-axiswise-bf16-grad-weight-8192", 0.969448),
        ("torchao-pr940-block-torchtitan-axiswise-bf16", 1.03),
        ("mi300-notebook-product", 0.85),
        ("torchao-roofline-bandwidth", 0.92),
        ("aiconfigurator-link-latency", 10),
        ("deepgemm-peak", 1550),
        ("mamf-finder-fp8-shape", 1453.4),
    ],
)
def test_a_number_is_that_of_the_source(ours: list[Entry], start: str, value: float) -> None:
    (entry,) = of(ours, start)
    assert entry.value == value


def test_a_speed_up_is_that_of_the_times_beside_it(ours: list[Entry]) -> None:
    """Within the rounding of the printed times: a slip of a digit would show."""
    pairs = (("bf16_us", "fp8_us"), ("unfused_us", "fused_us"))
    checked = 0
    for entry in ours:
        for slow, fast in pairs:
            if slow in entry.printed and fast in entry.printed:
                assert entry.value is not None
                ends = [(entry.printed[slow] + s) / (entry.printed[fast] - s) for s in (-0.5, 0.5)]
                assert ends[0] <= entry.value <= ends[1], entry.id
                checked += 1
    assert checked == 32 + 9


def test_a_claim_on_fp8_products_is_shown_on_zeros_too(ours: list[Entry]) -> None:
    for entry in of(ours, "torchao-pr940-gemm"):
        assert entry.claim.test is not None
        assert entry.claim.test.as_source is not None
        assert entry.claim.test.as_source.points == {"distribution": "zeros"}
        assert "zeros" in entry.ledger.caveat


def test_a_row_has_its_shape_in_points_words_and_id(tmp_path: Path) -> None:
    claim = {"test": SPEEDUP, "says": "{value} at {shape}"}
    rows = [{"cube": 2048, "value": 1.23456, "fp8_us": 7}, {"m": 16, "n": 32, "k": 16, "value": 2}]
    cube, other = entries(tmp_path, claim | {"rows": rows})
    assert (cube.id, cube.says) == ("made-up-c0-2048", "1.235 at 2,048 cubed")
    assert cube.points == SPEEDUP["points"] | dict.fromkeys("mnk", 2048)
    assert (cube.value, cube.printed) == (1.23456, {"fp8_us": 7})
    assert other.id == "made-up-c0-16x32x16"
    assert other.says == "2 at 16 \N{MULTIPLICATION SIGN} 32 \N{MULTIPLICATION SIGN} 16"


def test_hardware_of_a_claim_comes_before_that_of_its_source(tmp_path: Path) -> None:
    why = {"untestable": "why"}
    one, other = entries(tmp_path, why | {"hardware": "two cards", "device": "x"}, why, device="y")
    assert (one.hardware, one.device, one.value) == ("two cards", "x", None)
    assert (other.hardware, other.device, other.claim.untestable) == ("a card", "y", "why")


def test_every_error_of_every_file_is_named(tmp_path: Path) -> None:
    bad = SPEEDUP | {"op": "gem", "value": 1}
    written(tmp_path, {"test": bad}, {"id": "c0", "untestable": "y"}, ledger="other")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "none.yaml").write_text("{")
    with pytest.raises(ClaimError) as caught:
        load_claims(tmp_path)
    text = str(caught.value)
    assert "empty.yaml: ledger: missing, and required" in text
    assert "none.yaml: not YAML" in text
    assert "made-up.yaml: ledger: 'other' differs from the file name" in text
    assert "made-up.yaml: c0: unknown op 'gem'; did you mean 'gemm'?" in text
    assert load_claims(tmp_path / "none") == []


def test_two_claims_of_one_id_are_refused(tmp_path: Path) -> None:
    why = {"id": "same", "untestable": "why"}
    with pytest.raises(ClaimError, match="made-up-same: is the id of another claim too"):
        entries(tmp_path, why, why)


def test_two_ledgers_of_one_title_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            f"{{ledger: {name}, title: A paper, date: 2026-01-01, hardware: H200, "
            "claims: [{id: c, says: it, untestable: why}]}"
        )
    with pytest.raises(ClaimError, match=r"two.yaml: title: is that of .*one.yaml too"):
        load_claims(tmp_path)


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


ROW = {"cube": 64, "value": 1.5}


def said(test: dict[str, Any], *rows: dict[str, float]) -> list[str]:
    claim = Claim.model_validate(
        {"id": "c", "says": "so", "test": test, "rows": list(rows) or [ROW]}
    )
    return list(claim_errors("x.yaml: c", claim))


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


def test_a_recipe_that_was_written_down_may_be_named() -> None:
    fits = SPEEDUP | {"op": "linear", "points": {"recipe": "fp8_axiswise", "provider": "torchao"}}
    assert said(fits) == []
