"""A study of one op, measured by a scripted worker under a real Snakemake."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Self

import psutil

from roofcal.core.jsonl import read_records, salvage_records
from roofcal.core.records import Measurement
from tests.waiting import wait_until
from tests.workflow.checkout import Checkout, copy_checkout

POINTS: Final = 8
_SWEEP: Final = f"""op: gemm
contenders: {{cpu: {{bf16: [torch_cpu]}}}}
sweeps: {{takes a second: {{cubes: [{", ".join(str(64 * n) for n in range(1, POINTS + 1))}]}}}}
studies: {{quick: {{cpu: [takes a second]}}, standard: {{}}, full: {{}}}}
"""


def processes_of(name: str) -> list[psutil.Process]:
    """Processes that live with this name of locks in their environment, but this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("ROOFCAL_LOCKS") == name:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


@dataclass
class StudyOfOneOp:
    """A checkout with one op, whose points take a second each."""

    profile: ClassVar[Sequence[str]] = ("--cores", "2")
    name: ClassVar[str] = "Snakemake"

    checkout: Checkout
    run: Path
    trace: Path

    @classmethod
    def at(cls, folder: Path, trace: Path) -> Self:
        """A study in a fresh checkout; `trace` is the file that workers note their points in."""
        checkout = copy_checkout(folder)
        for sweep in checkout.folder.glob("config/sweeps/*.yaml"):
            sweep.unlink()
        checkout.write("config/sweeps/gemm.yaml", _SWEEP)
        checkout.replace("config/config.yaml", "most_visits: 2", "visits: 1, most_visits: 1")
        command = [sys.executable, "-m", "roofcal", "doctor", "--write-environment", "results"]
        done = subprocess.run(
            command,
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )
        return cls(checkout, folder / Path(done.stdout.splitlines()[0]).parent, trace)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Snakemake on its way to the measurements of gemm."""
        target = (self.run / "measurements/gemm.jsonl").relative_to(self.checkout.folder)
        command = [sys.executable, "-m", "snakemake", str(target), *self.profile, *arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, cwd=self.checkout.folder, stdout=log, stderr=log)

    def finish(self, *arguments: str, limit_s: float = 600) -> int:
        """The exit code of Snakemake; fails where it does not end by itself."""
        return self.start(*arguments).wait(timeout=limit_s)

    @property
    def log(self) -> Path:
        """What Snakemake said."""
        return self.checkout.folder / "said"

    def wait_for_points(self, count: int) -> None:
        """Until so many points have been begun."""
        wait_until(
            lambda: self.trace.exists() and len(self.trace.read_text().splitlines()) >= count,
            f"point {count}; Snakemake said {self.log.read_text()[-2000:]}",
        )

    def result(self, name: str, orphans: int) -> dict[str, object]:
        """Counts of the campaign after the last run; `orphans` are jobs or processes left."""
        journal = salvage_records(self.run / "journal/gemm.jsonl")[0]
        times = Counter(
            r.point_id for r in journal if isinstance(r, Measurement) and r.status == "ok"
        )
        rows = read_records(self.run / "measurements/gemm.jsonl", Measurement)
        return {
            "run": f"{self.name}: {name}",
            "points lost": POINTS - sum(row.status == "ok" for row in rows),
            "measured twice": sum(count - 1 for count in times.values()),
            "orphans": orphans,
            "locks left": len(list(self.run.glob("journal/.*.lock"))),
        }
