"""The map as CSV: every linear at every point, the same numbers as for one linear."""

import csv
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from roofcal.ask.breakeven import GRID, LARGEST_M, breakeven
from roofcal.ask.breakeven_map import COLUMNS, SIDES, TOKENS, map_csv, mapped_linears, run_map
from roofcal.core.jsonl import write_records
from roofcal.core.records import Calibration
from roofcal.core.times import Array
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.ops.linear.model import BF16_GRAD_WEIGHT, Linear
from roofcal.ops.time_models import Sources
from tests.roofcal.models.runs import SOURCES, calibration
from tests.roofcal.models.stand_in import Seconds, StandIn

NO_TIME = Sources()


def model(factor: float | None = None, casts: tuple[str, ...] = ()) -> StandIn:
    products = {
        "bf16": lambda s: 2 * s[0],
        "fp8_tensorwise": lambda s: s[0] + 1000.0,
        "int8": lambda s: s[0],
    }
    return StandIn(products=products, factor=factor, casts=casts)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text)))


def test_every_linear_has_every_point() -> None:
    table = rows(map_csv(model(casts=("torch_eager",)), NO_TIME))
    assert tuple(table[0]) == COLUMNS
    kinds = {(row["recipe"], row["pass"], row["casts"]) for row in table}
    assert kinds == {
        ("fp8_tensorwise", passes, casts)
        for passes in ("forward", "forward_backward")
        for casts in ("none", "fastest")
    }
    assert len(table) == 4 * len(SIDES) * len(TOKENS)
    assert all(row["n"] == row["k"] for row in table)
    assert (TOKENS[:5], TOKENS[-1]) == ((16, 32, 48, 64, 96), LARGEST_M)
    assert not any(m % 16 for m in TOKENS)
    assert (table[0]["low"], table[0]["high"], table[0]["class"]) == ("", "", "slower")


def test_linears_have_no_casts_or_those_of_whoever_is_fastest() -> None:
    both = mapped_linears(model(casts=("torch_eager", "torch_compile")), NO_TIME)
    assert {linear.casts for linear in both} == {"none", "fastest"}
    assert {one.weights for one in both if one.passes == "forward_backward"} == {"cast"}
    products: dict[str, Seconds] = {"bf16": lambda s: s[0], "fp8_axiswise": lambda s: s[0]}
    linears = mapped_linears(StandIn(products=products), NO_TIME)
    assert [one.passes for one in linears if one.recipe == BF16_GRAD_WEIGHT] == ["forward_backward"]


def test_speedup_interval_and_class_stand_beside_each_other() -> None:
    table = rows(map_csv(model(1.1), NO_TIME))
    forward = [row for row in table if (row["pass"], row["n"]) == ("forward", "512")]
    by_m = {int(row["m"]): row for row in forward}
    assert [by_m[m]["class"] for m in (64, 1024, 8192)] == ["slower", "uncertain", "faster"]
    assert float(by_m[1024]["speedup"]) == pytest.approx(2048 / 2024, rel=1e-3)
    assert float(by_m[1024]["low"]) < 1 < float(by_m[1024]["high"])


def test_rows_end_with_the_break_even_of_their_weight() -> None:
    linear = Linear(recipe="fp8_tensorwise", casts="none")
    answer = breakeven(calibrated, SOURCES, linear, 4096, 4096)
    rows_of_4096 = [
        row
        for row in rows(map_csv(calibrated, SOURCES))
        if (row["pass"], row["casts"], row["n"]) == ("forward", "none", "4096")
    ]
    ends = {(r["breakeven_m"], r["breakeven_m_low"], r["breakeven_m_high"]) for r in rows_of_4096}
    assert answer.m_high is None  # as far as the interval of the made-up calibration tells
    assert ends == {(str(answer.m), str(answer.m_low), "")}
    at = {int(row["m"]): float(row["speedup"]) for row in rows_of_4096}
    on_grid = dict(zip(GRID.tolist(), answer.speedups.value.tolist(), strict=True))
    assert at == {m: pytest.approx(on_grid[m], rel=1e-3) for m in TOKENS}


def test_never_is_an_empty_cell_and_each_product_is_computed_once() -> None:
    calls: list[str] = []

    def bf16(sizes: Array) -> Array:
        calls.append("bf16")
        return np.asarray(2 * sizes[0])

    once = StandIn(products={"bf16": bf16, "fp8_tensorwise": lambda s: 4 * s[0]})
    assert rows(map_csv(once, NO_TIME))[0]["breakeven_m"] == ""
    assert len(calls) == 2 * len(SIDES)  # forward; grad_weight (grad_input has the same sizes)


def test_a_run_is_mapped_from_its_calibration_alone(tmp_path: Path) -> None:
    run = tmp_path / "made-up" / "e1"
    write_records(run / "calibration.jsonl", [calibration()])
    assert rows(run_map(run, run / "calibration.jsonl"))
    with pytest.raises(PredictError, match="fitted on made-up, not on another"):
        run_map(tmp_path / "another" / "e1", run / "calibration.jsonl")
    empty = Calibration(device="made-up", environment_id="e1", constants={})
    write_records(run / "calibration.jsonl", [empty])
    assert run_map(run, run / "calibration.jsonl") == ",".join(COLUMNS) + "\n"
