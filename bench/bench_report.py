"""A report of 20,000 measurements (bar: 30 s, 1.5 GB), as a whole process. Run: make bench.

Each measurement has 401 samples, which is what one on an H200 has.
"""

import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.records import Measurement, PlanPoint
from tests.roofcal.report.synthetic import (
    MadeUpRun,
    add_constants,
    add_predicted,
    cast,
    product,
    samples_around,
    true_seconds,
)

ROOT = Path(__file__).resolve().parents[1]
PRODUCTS = 18_000
CASTS = 2_000
SAMPLES = 401
RECIPES = ("bf16", "fp8_tensorwise", "fp8_tensorwise_slow_accum", "fp8_axiswise")


def products(source: random.Random) -> Iterator[PlanPoint]:
    """Distinct products: every recipe on random shapes."""
    seen: set[tuple[int, int, int]] = set()
    while len(seen) < PRODUCTS // len(RECIPES):
        m, n, k = (16 * round(2 ** source.uniform(1, 11)) for _ in range(3))
        if (m, n, k) not in seen:
            seen.add((m, n, k))
            yield from (product(m, n, k, recipe) for recipe in RECIPES)


def write_run(folder: Path) -> Path:
    """The run folder of 20,000 points, each with predictions of three models."""
    made, source = MadeUpRun(), random.Random(0)
    add_constants(made)
    for point in products(source):
        add_predicted(made, point)
    for number in range(CASTS):
        point = cast(1024 + number, 8192, "fp8_rowwise_dim0")
        made.measure(point)
        made.predict(point, "calibrated", true_seconds(point))
    for rows in made.rows.values():
        rows[:] = [_with_samples(row) for row in rows]
    return made.write(folder)


def _with_samples(row: Measurement) -> Measurement:
    middle = row.latency_samples_s[-1]
    samples = tuple(round(s, 12) for s in samples_around(middle, SAMPLES))
    return replace(row, latency_samples_s=samples, warmup_samples=SAMPLES // 2)


@pytest.mark.bench
def test_twenty_thousand_measurements(tmp_path: Path) -> None:
    """Time and peak memory of `python -m roofcal report`, and the size of its page."""
    folder = write_run(tmp_path / "results")
    page = tmp_path / "report" / "report.html"
    command = [sys.executable, "-m", "roofcal", "report", "--run", str(folder), "--out", str(page)]
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    records = sum(file.stat().st_size for file in folder.rglob("*.jsonl")) / 1e6
    print(
        f"\nreport of {PRODUCTS + CASTS:,} measurements ({records:.0f} MB of records) in "
        f"{seconds:.1f} s, peak {peak:.0f} MiB, page {page.stat().st_size / 1e6:.1f} MB"
    )
    assert page.stat().st_size < 12e6
