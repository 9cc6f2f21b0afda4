"""Dry run of the full study with published runs to replay: under 3 s (issue 2)."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Environment
from roofcal.ops import OPS
from tests.paths import ROOT
from tests.workflow.checkout import Checkout, copy_checkout

BAR_S = 3.0
REPEATS = 5
PUBLISHED_RUNS = 10
DEVICES = 4


@pytest.fixture
def full_study(tmp_path: Path) -> Checkout:
    """The study of this checkout, four GPUs to measure and ten published runs to replay."""
    checkout = copy_checkout(tmp_path / "checkout")
    shutil.rmtree(checkout.folder / "config")
    shutil.copytree(ROOT / "config", checkout.folder / "config")
    for number in range(DEVICES):
        write_environment(checkout.folder / "results", number)
    for number in range(PUBLISHED_RUNS):
        run = write_environment(checkout.folder / "reports" / "published", number)
        for kind in ("plan", "measurements"):
            for sweep in (ROOT / "config" / "sweeps").glob("*.yaml"):
                write_records(run / kind / f"{sweep.stem}.jsonl.gz", [])
    return checkout


def write_environment(folder: Path, number: int) -> Path:
    """The run folder of a made-up GPU."""
    record = Environment(
        device=f"nvidia-gpu{number}",
        vendor="nvidia",
        device_name="Test",
        compute_units=number + 1,
        torch="2.13",
        python="3.11",
    )
    run = folder / record.device / record.environment_id
    write_records(run / "environment.jsonl", [record])
    return run


def seconds_of(command: list[str], folder: Path) -> tuple[float, str]:
    """(wall time, output) of a command."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - start, done.stdout + done.stderr


@pytest.mark.bench
def test_a_dry_run_of_the_full_study_takes_less_than_three_seconds(full_study: Checkout) -> None:
    """The median of some runs; the first also fills Python's caches."""
    results = full_study.folder / "results"
    devices = [str(f.parent.relative_to(results)) for f in results.glob("*/*/environment.jsonl")]
    study = ["--config", "study=full", f"devices=[{','.join(devices)}]"]
    command = [sys.executable, "-m", "snakemake", "--dry-run", *study]

    runs = [seconds_of(command, full_study.folder) for _ in range(REPEATS)]

    said = runs[0][1]
    assert said.count("rule measure:") == DEVICES * len(OPS)
    assert said.count("rule calibrate:") == DEVICES + PUBLISHED_RUNS
    times = sorted(seconds for seconds, _ in runs)
    median = times[REPEATS // 2]
    sys.stdout.write(
        f"\ndry run, {DEVICES} devices, {PUBLISHED_RUNS} published runs: {median:.2f} s "
        f"(of {REPEATS}: {times[0]:.2f} .. {times[-1]:.2f} s; the bar is {BAR_S:g} s)\n"
    )
    assert median < BAR_S
