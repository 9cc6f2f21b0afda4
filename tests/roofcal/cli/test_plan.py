"""`plan`: the file of one op, or a summary."""

import json
from pathlib import Path

import pytest

from roofcal.cli.main import main
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import PlanPoint
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT


def test_plan_writes_the_points_of_a_slice(checkout: Path) -> None:
    write_records(checkout / "environment.jsonl", [ENVIRONMENT])
    plan_slice = {
        "op": "gemm",
        "seed": 0,
        "contenders": {"bf16": ["cublaslt"]},
        "sweeps": {"s": {"cubes": [64, 128]}},
        "models": {},
        "sentinel": [],
    }
    arguments = ["--environment", "environment.jsonl", "--slice", json.dumps(plan_slice)]
    assert main(["plan", *arguments, "--out", "plan.jsonl"]) == 0
    points = read_records(checkout / "plan.jsonl", PlanPoint)
    assert sorted(point.shape["m"] for point in points) == [64, 128]


@pytest.mark.usefixtures("checkout")
def test_plan_without_a_file_counts_points(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--study", "quick"]) == 0
    said = capsys.readouterr().out
    assert "probe_math" in said
    assert "points in" in said
