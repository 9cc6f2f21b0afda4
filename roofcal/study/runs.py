"""The runs of a study: those to measure here, earlier ones, and published ones.

Earlier runs (another driver or torch on this machine) are calibrated and predicted again from what
they hold; published ones are shown as published, unless the study derives them again.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from roofcal.core.environments import version_key
from roofcal.core.jsonl import TAKE_ENVIRONMENT, read_single_record, write_records
from roofcal.core.machine.cores import allowed_cores
from roofcal.core.manifest import manifest_problems
from roofcal.core.names import is_name
from roofcal.core.paths import (
    DERIVED_TABLES,
    DEVICES,
    PRIORS,
    PUBLISHED,
    REPLAY,
    RESULTS,
    RunFolder,
    RunsError,
    run_folders,
)
from roofcal.core.records import Environment
from roofcal.ops import BY_NAME, OPS, measuring_order, needed_probes
from roofcal.ops.visit_times import most_devices
from roofcal.study.config import Study

_MOST_COMPILERS: Final = 16  # of a job: each takes a GB or two of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun(RunFolder):
    """A run folder, and what Snakemake does with it. Files are strings, as its rules want them.

    ops      ops with a plan: those of the study, or those measured in an old run
    backend  what a current run is measured on; None for an earlier or a published run
    slices   per op of a current run, all that the configuration says of what to measure
    timing   of a current run, all that the configuration says of how to measure
    gpus_per_node  GPUs that a job of a current run asks for at most
    measuring_cores, measuring_memory_mb  what a job of a current run takes, per GPU; on a CPU
                   measuring_cores are all of the machine's
    is_only_card   whether this machine has one card of the kind that a current run measures
    most_devices   devices that a point of a current run may share: of this machine, of a cluster's
                   node, or processes of a CPU
    has_job_per_world_size  of a current run on a cluster: an op of several GPUs is several jobs
    is_frozen      a published run that is shown as it was published: nothing is derived from it
    """

    ops: tuple[str, ...]
    backend: Literal["cuda", "cpu"] | None = None
    slices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timing: Mapping[str, Any] = field(default_factory=dict)
    gpus_per_node: int = 8
    measuring_cores: int = 4
    measuring_memory_mb: int = 32_000
    is_only_card: bool = False
    most_devices: int = 1
    has_job_per_world_size: bool = False
    is_frozen: bool = False

    @property
    def probes(self) -> tuple[str, ...]:
        """Ops that calibrate."""
        return tuple(op for op in self.ops if BY_NAME[op].role == "probe")

    @property
    def studies(self) -> tuple[str, ...]:
        """Ops that are predicted."""
        return tuple(op for op in self.ops if BY_NAME[op].role == "study")

    def plans(self, ops: Iterable[str]) -> list[str]:
        """Plan files of `ops`; those of a current run are not there before it is planned."""
        return [str(self.plan_file(op)) for op in ops]

    def measurements(self, ops: Iterable[str]) -> list[str]:
        """Measurement files of `ops`."""
        return [str(self.measurements_file(op)) for op in ops]

    def records(self) -> list[str]:
        """Environment, plans and measurements of all its ops."""
        return [str(self.environment_file), *self.plans(self.ops), *self.measurements(self.ops)]

    def world_sizes_by_job(self, op: str) -> dict[int, tuple[int, ...]]:
        """GPUs that a job asks for -> the world sizes that it measures, of the jobs of an op.

        On a cluster an op of several GPUs has a job per world size, so that none holds GPUs that
        its points leave idle. Points that no node has the GPUs for become rows that say so, in the
        largest job. Elsewhere an op is one job; on a CPU it asks for no GPU.
        """
        sweeps, panel = (self.slices[op].get(name) for name in ("sweeps", "sentinel"))
        every = {size for sweep in (sweeps or {}).values() for size in sweep.get("world_sizes", ())}
        every |= {sentinel["world_size"] for sentinel in panel or ()}
        sizes = sorted(every or {1})
        jobs: dict[int, tuple[int, ...]] = {
            size: (size,) for size in sizes if size <= self.gpus_per_node
        }
        largest = max(jobs, default=1)
        if self.backend != "cuda":
            return {0: tuple(sizes)}
        if not self.has_job_per_world_size:
            return {largest: tuple(sizes)}
        beyond = (size for size in sizes if size > self.gpus_per_node)
        return jobs | {largest: (*jobs.get(largest, ()), *beyond)}

    def gpus(self, op: str) -> int:
        """GPUs that the one job asks for which measures all of an op, none on a CPU."""
        return max(self.world_sizes_by_job(op))

    def measured_parts(self, op: str) -> list[str]:
        """Files with what each job of an op measured, where it has several."""
        folder = self.folder / "measurements/by_gpus"
        return [str(folder / f"{op}.{gpus}.jsonl") for gpus in self.world_sizes_by_job(op)]

    def device_halves(self) -> int:
        """What a measuring job takes of the two halves of `device` in profiles/default.

        On the only GPU of a machine the process of the next op imports while this one measures, and
        takes the GPU when its lock is free. A CPU has to be left alone, and beside a second GPU the
        next op would not wait but measure there.
        """
        return 1 if self.is_only_card else 2

    def planning_slots(self) -> int:
        """What the plan of an op takes of the one `planning` in profiles/default.

        Measuring a GPU begins with the first plan, so that it has to be that of the first op.
        Measuring a CPU takes all cores, and begins when all is planned.
        """
        return 1 if self.backend == "cuda" else 0

    def gpus_of_node(self) -> int:
        """GPUs that a job asks for which measures all of a node, none on a CPU."""
        return self.gpus_per_node if self.backend == "cuda" else 0

    def cores(self, gpus: int) -> int:
        """Cores that a job takes which measures so many GPUs, or for 0 the CPU."""
        return self.measuring_cores * max(1, gpus)

    def memory_mb(self, gpus: int) -> int:
        """Memory of the host that such a job takes, in MB."""
        return self.measuring_memory_mb * max(1, gpus)

    def compiled(self, op: str) -> list[str]:
        """The file that says that the kernels of an op are compiled, where a job does that.

        On a CPU nothing is compiled beside a measurement, and on a cluster the job that measures
        compiles first, on the cores that it holds. Kernels of libraries are compiled already.
        """
        if self.backend != "cuda" or self.has_job_per_world_size:
            return []
        by_recipe = self.slices[op]["contenders"].values()
        every = {provider for providers in by_recipe for provider in providers}
        timed = {
            provider
            for sweep in self.slices[op]["sweeps"].values()
            if 1 in (sweep.get("world_sizes") or (1,))
            for provider in sweep.get("providers") or every
        }
        file = self.folder / "compiled" / f"{op}.jsonl"
        return [] if timed.issubset(BY_NAME[op].precompiled) else [str(file)]

    def compiling_cores(self, cores: int) -> int:
        """Cores of a job that compiles: two of them find room beside the two that hold the GPU."""
        beside = (cores - 2 * self.measuring_cores) // 2
        return min(_MOST_COMPILERS, max(self.measuring_cores, beside))

    def priority(self, op: str) -> int:
        """The higher, the earlier an op is measured."""
        order = measuring_order(self.ops)
        return len(order) - order.index(op)

    def shape_files(self, op: str) -> list[str]:
        """The CSV files of shapes that the slice of an op names."""
        sweeps = self.slices[op]["sweeps"].values()
        return [sweep["csv"] for sweep in sweeps if sweep.get("csv")]

    def derivatives(self) -> list[str]:
        """Calibration, predictions of every study op, and the derived tables.

        A publication has those that were derived when it was frozen.
        """
        predictions = [self.predictions_file(op) for op in self.studies]
        tables = [self.table_file(name) for name in DERIVED_TABLES]
        files = (self.calibration_file, *predictions, *tables)
        return [str(file) for file in files if not self.is_frozen or file.is_file()]

    def datasheet(self) -> list[str]:
        """The device's file in config/devices, if it has one."""
        path = DEVICES / f"{self.device}.yaml"
        return [str(path)] if path.is_file() else []

    def priors(self) -> list[str]:
        """What cards say of others, where the device has a file that says which are like it."""
        return sorted(map(str, PRIORS.glob("*.jsonl"))) if self.datasheet() else []


def study_runs(study: Study) -> tuple[list[StudyRun], list[str]]:
    """(all runs of a study, one sentence on each that is left out of the report, and why).

    Current runs come first, then earlier ones that were measured to their end, then publications
    whose manifests hold, where the study wants them. Publications that it derives again have that
    below REPLAY, and of their manifests the records alone have to hold.

    Writes environment.jsonl of a device that is here for the first time. Raises RunsError if a
    listed device has none, if this size of the study has no point of any op that is named, or if
    there is nothing to measure and nothing to show.
    """
    runs, left_out = current_runs(study), list[str]()
    if runs and study.file.ops and not any(set(study.file.ops) & set(run.ops) for run in runs):
        reasons = dict.fromkeys(why for run in runs for why in ops_without_points(study, run))
        raise RunsError(f"config/config.yaml: ops: nothing to measure. {' '.join(reasons)}")
    current = {run.folder for run in runs}
    for run in run_folders(RESULTS):
        planned, measured = run.planned_ops(), measured_ops(run)
        missing = [op.name for op in OPS if op.name in planned and op.name not in measured]
        if run.folder in current or not (missing or measured):
            continue
        if not missing and not any(BY_NAME[op].role == "probe" for op in measured):
            missing = ["a probe"]
        if missing:
            left_out.append(
                f"{run.folder} is left out of the report: it was interrupted before "
                f"{', '.join(missing)} was measured, and its environment is no longer here. Delete "
                "the folder to silence this."
            )
        else:
            runs.append(StudyRun(folder=run.folder, derived=run.derived, ops=measured))
    again = study.file.published == "again"
    for run in run_folders(PUBLISHED) if study.file.shows_published else ():
        if problems := manifest_problems(run.folder, records_only=again):
            more = f" (and {len(problems) - 1} more)" if problems[1:] else ""
            way_out = "; `--config published=again` derives it anew from its records"
            left_out.append(
                f"{run.folder} is left out of the report, it is not what was published: "
                f"{problems[0]}{more}{'' if again else way_out}"
            )
        else:
            derived = REPLAY / run.name if again else run.folder
            ops = measured_ops(run)
            runs.append(StudyRun(folder=run.folder, derived=derived, ops=ops, is_frozen=not again))
    if not runs:
        raise RunsError("config/config.yaml: devices is empty and no publication can be shown")
    return runs, left_out


def ops_without_points(study: Study, run: StudyRun) -> list[str]:
    """A sentence on each op that is named for the study and of which a current run has no point."""
    where = "a CPU" if run.backend == "cpu" else "a GPU"
    sentences = []
    for op in dict.fromkeys(study.file.ops or ()):
        if run.backend and op not in run.ops:
            sizes = [f"`--config study={size}`" for size in study.sizes_with(op, run.backend)]
            sentences.append(
                f"{op} is not measured: study={study.file.study} has no point of it on {where}; "
                f"{' or '.join(sizes) or 'no other size'} has."
            )
    return sentences


def other_calibrations(run: StudyRun, runs: Iterable[StudyRun]) -> list[str]:
    """Calibration files of the device of `run` in its other environments, sorted by environment.

    Of several runs of one environment the first of `runs` counts.
    """
    others = _by_environment(run.device, runs).items()
    return [str(o.calibration_file) for name, o in sorted(others) if name != run.environment_id]


def with_run_before(run: StudyRun, runs: Iterable[StudyRun]) -> list[StudyRun]:
    """The two runs that "What moved" compares: of the environment before that of `run`, and `run`.

    Before: by the versions of driver, torch and triton in the ids of the device's environments; []
    for the first, and for a publication that is shown as it was frozen. Of several runs of one
    environment the first of `runs` counts.
    """
    if run.is_frozen:
        return []
    by_environment = _by_environment(run.device, runs)
    own = version_key(run.environment_id)
    earlier = [name for name in by_environment if version_key(name) < own]
    return [by_environment[max(earlier, key=version_key)], run] if earlier else []


def _by_environment(device: str, runs: Iterable[StudyRun]) -> dict[str, StudyRun]:
    """Environment id -> the first of `runs` of a device in it."""
    of_device = [run for run in runs if run.device == device]
    return {run.environment_id: run for run in reversed(of_device)}


def current_runs(study: Study) -> list[StudyRun]:
    """The runs to measure: of the devices of this machine, or of those the study lists."""
    if study.file.devices == "auto":
        from roofcal.core.machine.nvml import visible_gpus  # noqa: PLC0415 (as discover)
        from roofcal.study.discover import discover  # noqa: PLC0415 (a login node must not look)

        environments = {RESULTS / e.device / e.environment_id: e for e in discover(DEVICES)}
        for folder, environment in environments.items():
            file = RunFolder.at(folder).environment_file
            if not file.exists():  # the folder's name is its hash: it never changes
                write_records(file, [environment])
        cards = len(visible_gpus())
    else:
        environments, cards = _listed_environments(list(study.file.devices)), 0
    return [
        planned_run(study, folder, environment, cards)
        for folder, environment in environments.items()
    ]


def measured_ops(run: RunFolder) -> tuple[str, ...]:
    """Ops of this study with measurements, in the order of OPS."""
    measured = run.measured_ops()
    return tuple(op.name for op in OPS if op.name in measured)


def _listed_environments(names: list[str]) -> dict[Path, Environment]:
    """Run folder -> environment of the runs "<device>/<environment_id>" that a study lists."""
    files = {name: RunFolder.at(RESULTS / name).environment_file for name in names}
    missing = [name for name, file in files.items() if not file.is_file()]
    are_names = all(
        is_name(device) and is_name(environment)
        for device, _, environment in (name.partition("/") for name in names)
    )
    if missing or not are_names:
        known = ", ".join(run.name for run in run_folders(RESULTS)) or "none"
        raise RunsError(
            "config/config.yaml: devices: no results/<device>/<environment_id>/environment.jsonl "
            f"for {', '.join(missing or names)}; known: {known}. {TAKE_ENVIRONMENT}"
        )
    listed = {}
    for name, file in files.items():
        environment = read_single_record(file, Environment)
        if (described := f"{environment.device}/{environment.environment_id}") != name:
            raise RunsError(f"{file}: describes {described}, not its folder; {TAKE_ENVIRONMENT}")
        listed[RESULTS / name] = environment
    return listed


def planned_run(study: Study, folder: Path, environment: Environment, cards: int) -> StudyRun:
    """The run of a device, of which this machine has `cards`; 0: a CPU, or a listed device."""
    backend: Literal["cuda", "cpu"] = "cpu" if environment.vendor == "cpu" else "cuda"
    names = {*study.ops, *needed_probes(study.ops)}
    slices = {op: study.op_slice(op, backend) for op in study.sweep_files if op in names}
    slices = {op: op_slice for op, op_slice in slices.items() if op_slice["sweeps"]}
    # Nothing may run beside the measurement of a CPU.
    of_cpu = environment.threads or os.cpu_count() or 1
    cores = of_cpu if backend == "cpu" else study.file.measuring_cores
    if environment.cpu_quota_cores and study.file.devices == "auto":
        # The quota counts all threads of the container: the whole machine is reserved.
        cores = allowed_cores()
    return StudyRun(
        folder=folder,
        derived=folder,
        ops=tuple(slices),
        backend=backend,
        slices=slices,
        timing=study.timing(backend),
        gpus_per_node=study.file.gpus_per_node,
        measuring_cores=cores,
        measuring_memory_mb=study.file.measuring_memory_mb,
        is_only_card=cards == 1,
        most_devices=most_devices(environment, cards or study.file.gpus_per_node),
        has_job_per_world_size=study.file.devices != "auto",
    )
