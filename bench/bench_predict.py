"""`predict --points` with 100,000 rows (bar: 2 s) and one point (bar: 1 s), as whole processes.

Needs a calibration of nvidia-h200, published or measured. Run: make bench.
"""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofcal.models.registry import MODELS

ROOT = Path(__file__).resolve().parents[1]
PREDICT = [sys.executable, "-m", "roofcal", "predict", "--device", "nvidia-h200"]


def seconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([*PREDICT, *arguments], cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - start


@pytest.mark.bench
@pytest.mark.parametrize("model", MODELS)
def test_a_hundred_thousand_rows(model: str, tmp_path: Path) -> None:
    source = random.Random(0)
    recipes = ("bf16", "fp8_tensorwise", "fp8_axiswise")
    rows = [
        f"{source.choice(recipes)},{source.randint(1, 9000)},"
        f"{16 * source.randint(1, 600)},{16 * source.randint(1, 600)}\n"
        for _ in range(100_000)
    ]
    path, out = tmp_path / "points.csv", tmp_path / "out.csv"
    path.write_text("recipe,m,n,k\n" + "".join(rows))
    asked = ("--by", model, "--points", str(path), "--out", str(out))
    times = [seconds(*asked) for _ in range(5)]
    print(f"\n{model}, 100,000 rows: {min(times):.2f} to {max(times):.2f} s")
    assert len(out.read_text().splitlines()) == 100_001


@pytest.mark.bench
def test_one_point() -> None:
    point = ("--recipe", "fp8_axiswise", "--m", "4096", "--n", "4096", "--k", "4096")
    times = [seconds(*point) for _ in range(5)]
    print(f"\none point: {min(times):.2f} to {max(times):.2f} s")
