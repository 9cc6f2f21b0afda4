"""A copy of this checkout in which the workflow tests run Snakemake."""

import gzip
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import DERIVED_TABLES
from roofcal.core.records import Calibration, Environment
from tests.forked import start_process
from tests.paths import ROOT
from tests.roofcal.made_up_records import environment_of
from tests.workflow.forked_snakemake import ENVIRONMENT, be_snakemake

HERE = Path(__file__).resolve().parent
_PARTS = ("environment.yml", "Snakefile", "workflow", "profiles", "kernels", "roofcal", "reports")
_NOT_COPIED = shutil.ignore_patterns(
    "published", ".*"
)  # compiled modules are: a second less per run
_JOB = re.compile(r"^(?:local)?(?:rule|checkpoint) (\w+):\n((?:    .*\n)*)", re.MULTILINE)

CPU = {"device": "cpu-test", "vendor": "cpu", "torch": "2.13"}
_WORLD_SIZES = """op: probe_link
contenders: {cuda: {all_gather: [nccl]}}
sweeps: {sizes: {grid: {size_bytes: [4096, 65536]}, world_sizes: [2, 4, 16]}}
studies: {quick: {cuda: [sizes]}}
"""
GPU = {"device": "nvidia-test", "vendor": "nvidia", "torch": "2.13", "driver": "580"}


@dataclass(frozen=True)
class Checkout:
    """A folder with the workflow, config and code, in which studies may be run and files edited."""

    folder: Path

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake here, with no environment activated; stderr is added to stdout.

        The process is forked from one that has imported Snakemake, which halves a dry run's 2 s.
        """
        with tempfile.NamedTemporaryFile("r", suffix=".log") as log:
            process = start_process(
                be_snakemake, self.folder, arguments, ENVIRONMENT, log=Path(log.name)
            )
            process.join()
            assert process.exitcode is not None
            return subprocess.CompletedProcess(arguments, process.exitcode, log.read())

    def start(self, *arguments: str, log: Path) -> BaseProcess:
        """Start Snakemake here and do not wait for it; it leads a group of processes.

        It gets SIGINT even where this process ignores it, as jobs in the background of a shell do.
        """
        return start_process(be_snakemake, self.folder, arguments, ENVIRONMENT, log=log)

    def run(self, *arguments: str) -> str:
        """Run the study; fails with what Snakemake said."""
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def pending(self, *arguments: str) -> set[str]:
        """What Snakemake would run: "measure gemm", "calibrate", ..."""
        return set(self.pending_with_folders(*arguments))

    def pending_with_folders(self, *arguments: str) -> dict[str, list[str]]:
        """The same, with the run folders {root}/{device}/{environment} each is to run for."""
        return jobs_in(self.run("--dry-run", "-p", *arguments))

    def text(self, path: str) -> str:
        """A file's text."""
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Write a file and its folders."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        """Edit a file; `old` must be in it."""
        text = self.text(path)
        assert old in text, f"{old!r} is not in {path}"
        self.write(path, text.replace(old, new))

    def set_devices(self, *devices: dict[str, str]) -> None:
        """What discover() finds from now on."""
        self.write("devices.json", json.dumps(devices))

    def run_folders(self) -> list[Path]:
        """results/<device>/<environment> of every environment seen here."""
        return sorted(file.parent for file in self.folder.glob("results/*/*/environment.jsonl"))

    def publish(self, run: Path, environment: Environment) -> Path:
        """Freeze a run below reports/published, as `roofcal publish` does but for the report.

        environment: in which it is said to have been measured.
        """
        published = self.folder / "reports" / "published"
        target = published / environment.device / environment.environment_id
        for kind in ("plan", "measurements"):
            (target / kind).mkdir(parents=True)
            for file in (run / kind).glob("*.jsonl"):
                packed = gzip.compress(file.read_bytes(), mtime=0)
                (target / kind / f"{file.name}.gz").write_bytes(packed)
        shutil.copytree(run / "predictions", target / "predictions")
        calibration = read_single_record(run / "calibration.jsonl", Calibration)
        own = replace(calibration, environment_id=environment.environment_id)
        write_records(target / "calibration.jsonl", [own])
        write_records(target / "environment.jsonl", [environment])
        for name in DERIVED_TABLES:
            shutil.copy2(run / name, target)
        write_manifest(target, None)
        return target


def jobs_in(said: str) -> dict[str, list[str]]:
    """The jobs of a dry run by what it said: "measure gemm" -> the run folders it is to run for."""
    jobs: dict[str, list[str]] = {}
    for rule, body in _JOB.findall(said):
        line = re.search(r"^    wildcards: (.*)$", body, re.MULTILINE)
        wildcards = dict(re.findall(r"(\w+)=([^,\s]+)", line[1] if line else ""))
        name = f"{rule} {wildcards['op']}" if "op" in wildcards else rule
        folder = [wildcards[key] for key in ("root", "device", "environment") if wildcards]
        jobs.setdefault(name, []).append("/".join(folder))
    return jobs


def copy_checkout(folder: Path) -> Checkout:
    """The code as it is, with the small study of tests/workflow/study, and no results."""
    for part in _PARTS:
        source, target = ROOT / part, folder / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=_NOT_COPIED)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    shutil.copytree(HERE / "study", folder / "config")
    (folder / "environment.yml").touch()
    return Checkout(folder=folder)


def with_stand_ins(checkout: Checkout) -> Checkout:
    """The same, with a command line that measures nothing and devices from devices.json."""
    shutil.copy2(HERE / "stand_in_cli.py", checkout.folder / "roofcal" / "cli" / "main.py")
    shutil.copy2(
        HERE / "stand_in_discover.py", checkout.folder / "roofcal" / "study" / "discover.py"
    )
    checkout.write(
        "roofcal/__main__.py", "from roofcal.cli.main import main\n\nraise SystemExit(main())\n"
    )
    checkout.set_devices(CPU)
    return checkout


def write_gpu(checkout: Checkout) -> Path:
    """The folder of a run that has the environment of a GPU, as a node of a cluster writes it."""
    environment = environment_of("nvidia-test", torch="2.13")
    run = checkout.folder / "results/nvidia-test" / environment.environment_id
    write_records(run / "environment.jsonl", [environment])
    return run


def list_gpu(checkout: Checkout) -> Path:
    """The folder of a GPU's run, as on a cluster: listed, with an op of 2, 4 and 16 GPUs."""
    run = write_gpu(checkout)
    name = f"{run.parent.name}/{run.name}"
    checkout.write("config/sweeps/probe_link.yaml", _WORLD_SIZES)
    settings = (
        f'devices: ["{name}"]\ngpus_per_node: 8\nmeasuring_cores: 1\nmeasuring_memory_mb: 500'
    )
    checkout.replace("config/config.yaml", "study: quick", f"study: quick\n{settings}")
    return run
