"""The run folders of a study: those to measure here, earlier ones, and published ones.

A run is one device in one environment. Only current runs are measured; earlier runs (another driver
or torch on this machine) and published ones are replayed: calibrated and predicted again from the
plan and the measurements they hold.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from roofcal.core.environments import version_key
from roofcal.core.jsonl import read_records, write_records
from roofcal.core.paths import DEVICES, PUBLISHED, RESULTS
from roofcal.core.records import Environment
from roofcal.ops import BY_NAME, OPS
from roofcal.study.config import Study

TABLES: Final = ("learning.csv", "breakeven.csv", "llm.csv")  # of a run, derived beside its records


class RunsError(ValueError):
    """A device of the study whose run folder cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One device in one environment: where its records are and where derived ones go.

    folder   holds environment.jsonl, plan/ and measurements/
    derived  takes calibration.jsonl, predictions/ and TABLES; `folder` unless it is published
    ops      ops with a plan: those of the study, or those found measured in an old run
    backend  what a current run is measured on; None for a run that is only replayed
    slices   per op of a current run, all that the configuration says of what to measure
    timing   of a current run, all that the configuration says of how to measure
    gpus_per_node  that a job of a current run asks for at most
    suffix   of plan and measurement files
    """

    folder: Path
    derived: Path
    ops: tuple[str, ...]
    backend: Literal["cuda", "cpu"] | None = None
    slices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timing: Mapping[str, Any] = field(default_factory=dict)
    gpus_per_node: int = 8
    suffix: str = ".jsonl"

    @property
    def environment_id(self) -> str:
        """Name of the run folder."""
        return self.folder.name

    @property
    def probes(self) -> tuple[str, ...]:
        """Ops that calibrate."""
        return tuple(op for op in self.ops if BY_NAME[op].role == "probe")

    @property
    def studies(self) -> tuple[str, ...]:
        """Ops that are predicted."""
        return tuple(op for op in self.ops if BY_NAME[op].role == "study")

    def plans(self, ops: Iterable[str]) -> list[str]:
        """Plan files of `ops`."""
        return [f"{self.folder}/plan/{op}{self.suffix}" for op in ops]

    def measurements(self, ops: Iterable[str]) -> list[str]:
        """Measurement files of `ops`."""
        return [f"{self.folder}/measurements/{op}{self.suffix}" for op in ops]

    @property
    def environment(self) -> str:
        """Its environment file."""
        return f"{self.folder}/environment.jsonl"

    def records(self) -> list[str]:
        """Environment, plans and measurements of all its ops."""
        return [self.environment, *self.plans(self.ops), *self.measurements(self.ops)]

    def gpus(self, op: str) -> int:
        """GPUs that measuring an op asks for: its largest world size a node has, none on a CPU."""
        sweeps = self.slices[op]["sweeps"].values()
        sizes = [size for sweep in sweeps for size in sweep.get("world_sizes", ())]
        fitting = (size for size in sizes if size <= self.gpus_per_node)
        return max(fitting, default=1) if self.backend == "cuda" else 0

    def shape_files(self, op: str) -> list[str]:
        """The CSV files of shapes that the slice of an op names."""
        sweeps = self.slices[op]["sweeps"].values()
        return [sweep["csv"] for sweep in sweeps if sweep.get("csv")]

    @property
    def calibration(self) -> str:
        """Its calibration file."""
        return f"{self.derived}/calibration.jsonl"

    def derivatives(self) -> list[str]:
        """Calibration, predictions of every study op, and TABLES."""
        names = (*(f"predictions/{op}.jsonl" for op in self.studies), *TABLES)
        return [self.calibration, *(f"{self.derived}/{name}" for name in names)]

    def datasheet(self) -> list[str]:
        """The device's file in config/devices, if it has one."""
        path = DEVICES / f"{self.folder.parent.name}.yaml"
        return [str(path)] if path.is_file() else []


def study_runs(study: Study) -> list[Run]:
    """All runs of a study: current, then earlier, then published (where the study wants them).

    Writes environment.jsonl of a device that was found for the first time. Raises RunsError if a
    listed device has none, or if there is nothing to measure or replay.
    """
    current = current_runs(study)
    folders = {run.folder for run in current}
    runs = [*current, *earlier_runs(RESULTS, folders)]
    if study.published:
        runs += published_runs(PUBLISHED, RESULTS / "replay")
    if not runs:
        raise RunsError("config/config.yaml: devices is empty and there is nothing to replay")
    return runs


def other_calibrations(run: Run, runs: Iterable[Run]) -> list[str]:
    """Calibration files of the device of `run` in its other environments, sorted by environment.

    Of several runs of one environment the first of `runs` counts.
    """
    found: dict[str, str] = {}
    for other in runs:
        if other.folder.parent.name == run.folder.parent.name:
            found.setdefault(other.environment_id, other.calibration)
    return [found[name] for name in sorted(found) if name != run.environment_id]


def with_run_before(run: Run, runs: Iterable[Run]) -> list[Run]:
    """The two runs that "What moved" compares: of the environment before that of `run`, and `run`.

    Before: by the versions of driver, torch and triton in the ids of the device's environments; []
    for the first. Of several runs of one environment the first of `runs` counts.
    """
    found: dict[str, Run] = {}
    for other in runs:
        if other.folder.parent.name == run.folder.parent.name:
            found.setdefault(other.environment_id, other)
    earlier = [e for e in found if version_key(e) < version_key(run.environment_id)]
    return [found[max(earlier, key=version_key)], run] if earlier else []


def current_runs(study: Study) -> list[Run]:
    """The runs to measure: of the devices found here, or of those the study lists."""
    found = _found() if study.devices == "auto" else _listed(list(study.devices))
    return [_current(study, folder, environment) for folder, environment in found.items()]


def earlier_runs(results: Path, current: Collection[Path]) -> list[Run]:
    """Finished runs below `results` that are not measured now."""
    folders = [folder for folder in _earlier(results, current) if not _unmeasured(folder)]
    return [Run(folder=folder, derived=folder, ops=_measured_ops(folder)) for folder in folders]


def interrupted_runs(results: Path, current: Collection[Path]) -> list[str]:
    """One sentence per earlier run that never got to its end and so is left out of the report."""
    return [
        f"{folder} is left out of the report: it was interrupted before {', '.join(missing)} was "
        "measured, and its environment is no longer here. Delete the folder to silence this."
        for folder in _earlier(results, current)
        if (missing := _unmeasured(folder))
    ]


def published_runs(published: Path, replay: Path) -> list[Run]:
    """Frozen runs below `published`; what is derived from them goes below `replay`."""
    return [
        Run(
            folder=file.parent,
            derived=replay / file.parent.relative_to(published),
            ops=_measured_ops(file.parent),
            suffix=".jsonl.gz",
        )
        for file in sorted(published.glob("*/*/environment.jsonl"))
    ]


def find_run(device: str, environment: str | None = None) -> Run:
    """The run of a device to show, of this machine or published.

    Calibrated comes before uncalibrated, measured here before published, and of several
    environments the last by name. Raises RunsError saying what there is where nothing matches.
    """
    runs = runs_with_records()
    matching = [
        _with_frozen(run)
        for run in runs
        if run.folder.parent.name == device and environment in (None, run.environment_id)
    ]
    if not matching:
        raise RunsError(_no_run(device, environment, runs))
    calibrated = [run for run in matching if (run.derived / "calibration.jsonl").is_file()]
    return (calibrated or matching)[-1]


def runs_with_records() -> list[Run]:
    """Runs with measurements, published ones before those of this machine."""
    folders = sorted(file.parent for file in RESULTS.glob("*/*/environment.jsonl"))
    here = [Run(folder=f, derived=f, ops=_measured_ops(f)) for f in folders]
    return [run for run in (*published_runs(PUBLISHED, RESULTS / "replay"), *here) if run.ops]


def _with_frozen(run: Run) -> Run:
    """A published run that has not been replayed here keeps what was derived when it was frozen."""
    replayed = (run.derived / "calibration.jsonl").is_file()
    return run if replayed else replace(run, derived=run.folder)


def _no_run(device: str, environment: str | None, runs: list[Run]) -> str:
    known = sorted({f"{run.folder.parent.name} {run.environment_id}" for run in runs})
    wanted = f"{device} {environment}" if environment else device
    return (
        f"nothing is measured or published of {wanted}; there is: {'; '.join(known) or 'nothing'}. "
        "`make study` measures this machine"
    )


def _found() -> dict[Path, Environment]:
    from roofcal.study.discover import discover  # noqa: PLC0415 (a login node must not look for devices)

    found = {RESULTS / e.device / e.environment_id: e for e in discover(DEVICES)}
    for folder, environment in found.items():
        if not (folder / "environment.jsonl").exists():  # its name is its hash: it never changes
            write_records(folder / "environment.jsonl", [environment])
    return found


def _listed(names: list[str]) -> dict[Path, Environment]:
    missing = [name for name in names if not (RESULTS / name / "environment.jsonl").is_file()]
    if missing or not all(name.count("/") == 1 for name in names):
        raise RunsError(_not_taken(missing or names))
    return {RESULTS / name: _read_environment(RESULTS / name) for name in names}


def _read_environment(folder: Path) -> Environment:
    file = folder / "environment.jsonl"
    environments = read_records(file, Environment)
    ids = [f"{e.device}/{e.environment_id}" for e in environments]
    if ids != [f"{folder.parent.name}/{folder.name}"]:
        raise RunsError(f"{file}: describes {', '.join(ids) or 'nothing'}, not its folder; {_TAKE}")
    return environments[0]


def _current(study: Study, folder: Path, environment: Environment) -> Run:
    backend: Literal["cuda", "cpu"] = "cpu" if environment.vendor == "cpu" else "cuda"
    wanted = {*study.ops, *(op.name for op in OPS if op.role == "probe")}  # all calibrate
    slices = {op: study.op_slice(op, backend) for op in study.sweep_files if op in wanted}
    slices = {op: op_slice for op, op_slice in slices.items() if op_slice["sweeps"]}
    return Run(
        folder=folder,
        derived=folder,
        ops=tuple(slices),
        backend=backend,
        slices=slices,
        timing=study.timing(backend),
        gpus_per_node=study.file.gpus_per_node,
    )


def _earlier(results: Path, current: Collection[Path]) -> list[Path]:
    """Folders below `results` with a plan or measurements, other than `current`."""
    folders = (file.parent for file in sorted(results.glob("*/*/environment.jsonl")))
    used = (f for f in folders if _ops_in(f / "plan") or _measured_ops(f))
    return [folder for folder in used if folder not in current]


def _unmeasured(folder: Path) -> list[str]:
    """Planned ops without measurements, and probes of which there is not a single one."""
    planned, measured = _ops_in(folder / "plan"), _measured_ops(folder)
    missing = [op for op in planned if op not in measured]
    return missing or ([] if any(BY_NAME[op].role == "probe" for op in measured) else ["a probe"])


def _measured_ops(folder: Path) -> tuple[str, ...]:
    return _ops_in(folder / "measurements")


def _ops_in(folder: Path) -> tuple[str, ...]:
    """Known ops with a records file in a folder, in the order of OPS."""
    files = (file.name for file in folder.glob("*.jsonl*") if not file.name.startswith("."))
    names = {name.split(".")[0] for name in files}
    return tuple(op.name for op in OPS if op.name in names)


_TAKE: Final = (
    "take it on the device's own machine: python -m roofcal doctor --write-environment results"
)


def _not_taken(names: list[str]) -> str:
    known = sorted(
        str(f.parent.relative_to(RESULTS)) for f in RESULTS.glob("*/*/environment.jsonl")
    )
    return (
        f"config/config.yaml: devices: no results/<device>/<environment_id>/environment.jsonl for "
        f"{', '.join(names)}; known: {', '.join(known) or 'none'}. {_TAKE}"
    )
