"""Reports as whole processes: the publication, and made-up studies of many measurements.

Bars on two quiet cores: 20 s for the publication, whose page of at most 2.5 MB shows its first
answer within 1 s and answers within 3 s; 90 s and 3 GB for 200,000 measurements, and no more than
ten times what 20,000 take. Each made-up measurement has 401 samples, which is what one on an H200
has. Run: make bench. The records of 200,000 take 1.4 GB below the temporary folder.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import psutil
import pytest

from roofcal.core.jsonl import encode
from roofcal.core.records import PlanPoint
from tests.browser import CHROMIUM, browser
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
PUBLISHED = sorted((ROOT / "reports" / "published").glob("*/*/environment.jsonl"))
SAMPLES = 401
# Of a page: the first paint, the end of its scripts, and the answer of its shape box at the latest.
_MILLISECONDS = """[
  performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  performance.timing.loadEventEnd - performance.timing.navigationStart,
  performance.now(),
].map(Math.round).join(", ")"""
RECIPES = ("bf16", "fp8_tensorwise", "fp8_tensorwise_slow_accum", "fp8_axiswise")
SHARES = {"gemm": 0.5, "probe_math": 0.3, "cast": 0.2}  # of the points, by op


def points_of(op: str, source: random.Random) -> Iterator[PlanPoint]:
    """Distinct points of an op without end: every recipe on random shapes, or casts by rows."""
    seen: set[tuple[int, int, int]] = set()
    while op != "cast":
        m, n, k = (16 * round(2 ** source.uniform(1, 11)) for _ in range(3))
        if (m, n, k) not in seen:
            seen.add((m, n, k))
            yield from (product(m, n, k, recipe, op=op) for recipe in RECIPES)
    for rows in range(1024, sys.maxsize):
        yield cast(rows, 8192, "fp8_rowwise_dim0")


def write_run(folder: Path, count: int) -> Path:
    """The run folder of so many points; study points have predictions, products of three models."""
    made_up, source = MadeUpRun(), random.Random(0)
    add_constants(made_up)
    for op in SHARES:
        made_up.plan(product(64, 64, 64, op=op) if op != "cast" else cast(64, 64, RECIPES[0]))
        made_up.points[op].clear()
    run = made_up.write(folder)
    for op, share in SHARES.items():
        (run / "predictions").mkdir(exist_ok=True)
        files = [run / kind / f"{op}.jsonl" for kind in ("plan", "measurements", "predictions")]
        plan, measurements, predictions = (path.open("a", encoding="utf-8") for path in files)
        with plan, measurements, predictions:
            for point in islice(points_of(op, source), round(share * count)):
                if op == "gemm":
                    add_predicted(made_up, point)
                else:
                    made_up.measure(point)
                if op == "cast":
                    made_up.predict(point, "calibrated", true_seconds(point))
                (row,) = made_up.rows.pop(op)
                middle = row.latency_samples_s[-1]
                samples = tuple(round(s, 12) for s in samples_around(middle, SAMPLES))
                row = replace(row, latency_samples_s=samples, warmup_samples=SAMPLES // 2)
                plan.write(encode(point) + "\n")
                measurements.write(encode(row) + "\n")
                for prediction in made_up.predictions.pop(op, ()):
                    predictions.write(encode(prediction) + "\n")
    return run


def time_report(run: Path, page: Path) -> tuple[float, float]:
    """(seconds, bytes of memory at most, of all its processes together) of `roofcal report`."""
    command = [sys.executable, "-m", "roofcal", "report", "--run", str(run), "--out", str(page)]
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        parent = psutil.Process(process.pid)
        while process.poll() is None:
            time.sleep(0.25)
            peak = max(peak, _memory_of_tree(parent))
    assert process.returncode == 0
    return time.perf_counter() - start, peak


def _memory_of_tree(parent: psutil.Process) -> int:
    """Bytes of a process and its children; pages that they share count once."""
    total = 0
    try:
        for process in (parent, *parent.children(recursive=True)):
            total += process.memory_full_info().pss
    except psutil.Error:  # one of them has just ended
        return 0
    return total


@pytest.mark.bench
@pytest.mark.parametrize("environment", PUBLISHED, ids=lambda path: path.parts[-3])
def test_a_publication(environment: Path, tmp_path: Path) -> None:
    """The report of a publication, from its records."""
    page = tmp_path / "report.html"
    seconds, peak = time_report(environment.parent, page)
    size = page.stat().st_size / 1e6
    print(f"\n{environment.parent.name}: {seconds:.1f} s, peak {peak / 1e9:.2f} GB, {size:.1f} MB")
    assert size < 2.5
    if CHROMIUM is not None:
        with browser() as chromium:
            chromium.open(page)
            chromium.wait_for("document.querySelector('#shape-box tbody tr')")
            print(f"shown and answering after {chromium.run(_MILLISECONDS)} ms")


@pytest.mark.bench
@pytest.mark.parametrize("count", [20_000, 200_000])
def test_a_report_of_many_measurements(count: int, tmp_path: Path) -> None:
    """Time and peak memory, and the size of the page."""
    run, page = write_run(tmp_path / "results", count), tmp_path / "report" / "report.html"
    seconds, peak = time_report(run, page)
    records = sum(file.stat().st_size for file in run.rglob("*.jsonl")) / 1e6
    print(
        f"\nreport of {count:,} measurements ({records:.0f} MB of records) in {seconds:.1f} s, "
        f"peak {peak / 1e9:.2f} GB, page {page.stat().st_size / 1e6:.1f} MB"
    )
    assert page.stat().st_size < 16e6
