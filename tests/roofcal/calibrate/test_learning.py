"""Learning curves of made-up probes: errors fall, draws repeat, what is too small is left out."""

import csv
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofcal.calibrate import HELD_OUT, LEARNING_COLUMNS, learning_csv, learning_sizes
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement
from roofcal.ops.mixed_gemm import fit as mixed
from tests.made_once import make_once
from tests.roofcal.calibrate.probe_runs import write_run
from tests.roofcal.ops.mixed_gemm.test_fit import RECIPE, SLOTS, probes_of

PRODUCTS, CASTS = 64, 28  # probes of a made-up run


def rows(text: str, op: str = "gemm") -> list[dict[str, Any]]:
    kinds = dict.fromkeys(("probes", "repetition", "held_out"), int)
    kinds |= dict.fromkeys(("mape", "median", "p95"), float)  # type: ignore[arg-type]
    reader = csv.DictReader(io.StringIO(text))
    assert reader.fieldnames == list(LEARNING_COLUMNS)
    return [
        {key: kinds.get(key, str)(value) for key, value in row.items()}
        for row in reader
        if row["op"] == op
    ]


def mean(curve: list[dict[str, Any]], probes: int) -> float:
    mapes = [row["mape"] for row in curve if row["probes"] == probes]
    return float(np.mean(mapes))


def keep(run: Path, op: str, count: int) -> None:
    path = run / "measurements" / f"{op}.jsonl"
    write_records(path, read_records(path, Measurement)[:count])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run") / "made-up/e1")


@pytest.fixture(scope="module")
def text(run: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two curves of the run, which one process makes."""

    def write_curves(folder: Path) -> None:
        (folder / "learning.csv").write_text(learning_csv(run, repetitions=2))

    return (make_once(tmp_path_factory, "curves", write_curves) / "learning.csv").read_text()


def test_with_more_probes_the_truth_is_found(text: str) -> None:
    curve = rows(text)
    few, many = mean(curve, 12), mean(curve, PRODUCTS - HELD_OUT)
    assert many < 0.03
    assert many < few / 2


def test_every_size_is_judged_on_all_the_others_in_every_repetition(text: str) -> None:
    for op, least, count in (("gemm", 12, PRODUCTS), ("cast", 8, CASTS)):
        judged = [(r["repetition"], r["probes"], r["held_out"]) for r in rows(text, op)]
        expected = itertools.product((0, 1), learning_sizes(least, count))
        assert judged == [(again, size, count - size) for again, size in expected]
        assert {row["provider"] for row in rows(text, op)} == {"made"}
        assert all(0 <= row["median"] <= row["p95"] for row in rows(text, op))


def test_equal_seeds_draw_equal_probes_and_others_do_not(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made-up/e1")
    keep(run, "probe_math", 24)
    once, again, other = (learning_csv(run, repetitions=1, seed=seed) for seed in (0, 0, 1))
    assert once == again
    assert once != other


def test_a_recipe_with_too_few_probes_is_left_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made-up/e1")
    keep(run, "probe_math", 21)
    keep(run, "probe_cast", 18)
    curves = learning_csv(run, repetitions=1)
    assert rows(curves) == []
    assert [row["probes"] for row in rows(curves, "cast")] == [8]
    keep(run, "probe_cast", 17)
    assert learning_csv(run, repetitions=1) == ",".join(LEARNING_COLUMNS) + "\n"


@pytest.mark.parametrize(
    ("least", "count", "expected"),
    [
        (12, 120, [12, 19, 29, 45, 71, 110]),
        (8, 28, [8, 9, 11, 13, 15, 18]),
        (12, 22, [12]),
        (12, 21, []),
    ],
)
def test_sizes_are_geometric_from_the_least_to_all_but_ten(
    least: int, count: int, expected: list[int]
) -> None:
    assert learning_sizes(least, count) == expected


def test_narrow_weights_have_curves_by_provider(tmp_path: Path) -> None:
    run = write_run(tmp_path / "made-up/e1")
    probes_of(run, {RECIPE: SLOTS}, count=24)
    curve = rows(learning_csv(run, repetitions=2), "mixed_gemm")
    assert {(row["recipe"], row["provider"]) for row in curve} == {(RECIPE, "made")}
    assert {row["probes"] for row in curve} == set(learning_sizes(mixed.PROBLEM.least_probes, 24))
    assert mean(curve, 14) < 0.1
