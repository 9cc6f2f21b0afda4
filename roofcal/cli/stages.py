"""The stages of a study, which Snakemake calls: plan, compile, measure, calibrate, ...; doctor.

`publish` freezes a finished run, `verify` makes publications again, `site` writes the pages over
all of them. People ask `predict`, `breakeven` and `llm` too: those are in questions.py.
"""

import signal
import tempfile
from dataclasses import asdict
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any, Final, Literal

from roofcal.cli.commands import (
    Command,
    checked_folder,
    remark_on_stderr,
    show_line,
    write_or_print,
)
from roofcal.core import paths
from roofcal.core.files import check_folder, write_bytes
from roofcal.core.jsonl import read_single_record, write_records
from roofcal.core.machine.cores import usable_cores
from roofcal.core.names import did_you_mean_or_all, printable
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Environment


def preflight(*, profile: Path) -> int:
    """Print what a study with a profile needs; 1 where it does not fit the cluster.

    Args:
        profile (FOLDER): whether a study with this profile, e.g. profiles/slurm, fits the cluster:
            0 or 1
    """
    from roofcal.study.cluster import cluster_nodes
    from roofcal.study.cluster import preflight as examined
    from roofcal.study.config import load_study

    lines = list(examined(profile, load_study(paths.CONFIG), cluster_nodes()))
    for line, is_problem in lines:
        show_line(f"  {'problem: ' if is_problem else ''}{line}")
    return int(any(is_problem for _, is_problem in lines))


def write_environments(*, write_environment: Path) -> None:
    """Write what is here to files.

    Args:
        write_environment (RESULTS): write environment.jsonl of the devices here below RESULTS (on a
            cluster node)
    """
    from roofcal.study import doctor

    for path in doctor.write_environments(paths.DEVICES, write_environment):
        print(path)


def doctor(*, json: bool = False) -> None:
    """Print what is here; raises DiscoverError, exit code 2, where a study here would be refused.

    Args:
        json: the lines by their heading
    """
    from roofcal.study.doctor import examine

    lines = examine(paths.DEVICES, paths.PUBLISHED)
    if not json:
        for line in lines:
            show_line(line)
        return
    sections: dict[str, list[str]] = {}
    try:
        for line in lines:
            if line[:1].strip():
                lines_of_section = sections.setdefault(line.rstrip(":"), [])
            elif line.strip():
                lines_of_section.append(line.strip())
    finally:  # the lines are there, too, where the last says that a study is refused
        print(dumps(sections))


def plan_file(
    *, out: Path, environment: Path, slice: dict[str, Any], op: str | None = None
) -> None:
    """Write the points of one op.

    Args:
        out: write the points here
        op: one op
        environment: environment.jsonl of the device
        slice: what config says of the op, as JSON
    """
    from roofcal.study.plan import plan_op

    if op not in (None, slice.get("op")):
        raise ValueError(f"--op {op}, and --slice is of op {slice.get('op')}")
    write_records(out, plan_op(slice, read_single_record(environment, Environment)))


def plan(
    *,
    study: Literal["minute", "quick", "standard", "full"] | None = None,
    op: str | None = None,
    json: bool = False,
) -> None:
    """Print how many points a study has of each op.

    Args:
        study: size for the summary
        json: the summary, for programs
    """
    from roofcal.study.config import load_study
    from roofcal.study.discover import discover
    from roofcal.study.plan import plan_op

    config = load_study(paths.CONFIG, {"study": study} if study else None)
    summaries: list[dict[str, Any]] = []
    for environment in discover(paths.DEVICES):
        slices = {name: config.op_slice(name, environment.backend) for name in config.ops}
        if op is not None and op not in slices:
            raise ValueError(f"unknown op '{op}'{did_you_mean_or_all(op, slices)}")
        ops = {}
        for name in [op] if op else [name for name in slices if slices[name]["sweeps"]]:
            points = plan_op(slices[name], environment)
            groups = len({point.group_key for point in points})
            ops[name] = {"points": len(points), "groups": groups}
        names = {"device": environment.device, "environment": environment.environment_id}
        summaries.append(names | {"ops": ops})
    if json:
        print(dumps(summaries))
        return
    for summary in summaries:
        print(f"{summary['device']} ({summary['environment']})")
        for name, count in summary["ops"].items():
            print(f"  {name:14s}{count['points']:6d} points in {count['groups']} groups")


def compile_kernels(
    *, plan: Path, environment: Path, processes: int | None = None, out: Path | None = None
) -> None:
    """Say which points are not compiled, and why; no failure: they are compiled when timed.

    Args:
        environment: environment.jsonl of the device
        processes (N): compilers that run at once (default: one per core)
        out: write what became of each point here, as JSON
    """
    from roofcal.measure.compile import compile_plan

    lines = []
    for compiled in compile_plan(plan, environment, processes or usable_cores()):
        lines.append(dumps(compiled) + "\n")
        if compiled["reason"]:
            print(f"{compiled['point']}: {compiled['reason']}", flush=True)
    if out:
        write_bytes(out, "".join(lines).encode())


def measure(
    *,
    plan: Path,
    environment: Path,
    journal: Path,
    out: Path,
    timing: dict[str, Any],
    world_sizes: tuple[int, ...] | None = None,
    compile_first: bool = False,
    retry: list[Literal["unsupported", "incorrect", "out_of_memory", "timeout", "failed"]]
    | None = None,
) -> None:
    """Measure a plan.

    Args:
        environment: environment.jsonl of the device
        out: the measurements, once all are there
        timing: timing protocol, JSON
        world_sizes (N): points that so many devices share, and no others (default: the whole plan)
        compile_first: compile all of the plan with all cores before the GPU is taken (see
            `compile`)
        retry: measure points of this status again (may be given several times)
    """
    from roofcal.measure.session import Job, compiling
    from roofcal.measure.session import measure as measure_job
    from roofcal.study.discover import check_environment
    from roofcal.study.staleness import measure_hash

    check_environment(read_single_record(environment, Environment), paths.DEVICES)
    # A time limit (timeout, SLURM, Snakemake) ends a session like Ctrl-C: its end is recorded.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if compile_first:
        with compiling(plan, environment) as process:
            process.wait()
    measure_job(
        Job(
            plan=plan,
            environment=environment,
            timing=timing,
            journal=journal,
            out=out,
            code_hash_of=measure_hash,
            retry=tuple(retry or ()),
            world_sizes=world_sizes,
        )
    )


def join(parts: tuple[Path, ...], /, *, plan: Path, out: Path) -> None:
    """Join what several jobs measured.

    Args:
        parts (PART): what a job measured
        out: the measurements of all
    """
    from roofcal.study.cluster import join_measurements

    join_measurements(plan, parts, out)


def calibrate(*, run: Path, out: Path) -> None:
    """Fit the constants of a run on its probes.

    Args:
        out: the calibration
    """
    from roofcal.ask.devices import datasheet
    from roofcal.calibrate import calibrate as calibrated
    from roofcal.models.calibrations import cards_like

    folder = checked_folder(run)
    spec = datasheet(folder.parent.name)
    write_records(out, [calibrated(folder, spec, cards=cards_like(spec))])


def learning(*, run: Path, out: Path | None = None) -> None:
    """Print the error of predictions by the number of probes that they were fitted on."""
    from roofcal.ask.devices import datasheet
    from roofcal.calibrate import learning_csv

    folder = checked_folder(run)
    write_or_print(learning_csv(folder, datasheet(folder.parent.name)), out)


def report(*, run: list[str], out: Path, figures: Path | None = None) -> None:
    """Write the page of one or more runs.

    Args:
        run (DIR[=DERIVED]): run folder; DERIVED holds calibration and predictions where they stand
            apart
        out: the page
        figures (DIR): figures of the runs measured here as SVG files below this folder; without
            such a run those of all
    """
    from roofcal.claims import load_claims
    from roofcal.report.write import write_report

    pairs = [folder.partition("=")[::2] for folder in run]
    runs = [(Path(folder), Path(derived or folder)) for folder, derived in pairs]
    for folder in dict.fromkeys(folder for run in runs for folder in run):
        check_folder(folder)
    for line in write_report(runs, out, paths.DEVICES, load_claims(paths.CLAIMS), figures):
        print(line)
    print(f"report: {out.resolve()}")


DOCTOR: Final = Command(
    {"--profile": preflight, "--write-environment": write_environments, "": doctor}
)
PLAN: Final = Command({"--out": plan_file, "": plan})
COMPILE: Final = Command({"": compile_kernels})


NO_MANIFEST = 3  # the exit code where nothing is wrong, yet a publication has no manifest
_NO_MANIFEST: Final = (
    "no manifest: published before manifests; publish it again. Its records are whole"
)


def publish(
    *,
    run: Path | None = None,
    again: tuple[Path, ...] = (),
    judged: tuple[Path, ...] = (),
    cards: tuple[Path, ...] = (),
) -> None:
    """Publish and print the folders. What the terms refuse leaves all of them unchanged.

    Args:
        again (FOLDER): publications whose derived files the present code makes anew from their
            records
        judged (FOLDER): seed<seed>/<device>/<environment_id> as `tools/spot_checks.py unlisted`
            measures it: its records are put beside the publication of the environment, which is
            made anew as by --again
        cards (FOLDER): run folders <device>/<environment_id>, each measured on one card with the
            driver and libraries of the publication: their records are put beside it likewise
    """
    from roofcal.claims import load_claims
    from roofcal.publish.freeze import check_checkout, check_terms, publication_of, run_folders_anew
    from roofcal.publish.freeze import publish as freeze
    from roofcal.study.config import load_study

    limits, claims = load_study(paths.CONFIG).file.publish, load_claims(paths.CLAIMS)
    check_checkout(paths.PUBLISHED)  # before minutes of deriving
    with tempfile.TemporaryDirectory() as place:
        beside = [publication_of(folder, paths.PUBLISHED, is_judged=True) for folder in judged]
        beside += [publication_of(folder, paths.PUBLISHED, is_judged=False) for folder in cards]
        if publications := list(dict.fromkeys((*again, *beside))):
            for folder in publications:
                _refuse_other_folder(folder)
            folders = run_folders_anew(publications, Path(place), judged, cards)
        else:
            assert run  # one of the four is given
            folders = [checked_folder(run)]
        for folder in folders:
            check_terms(folder, limits)
        check_checkout(paths.PUBLISHED)  # deriving took minutes, in which a file may change
        for folder in folders:
            print(freeze(folder, paths.PUBLISHED, claims))
    _write_site(paths.PUBLISHED)


def site(*, out: Path = paths.RESULTS / "site") -> int:
    """Write the site and print its first page; 2 where every publication is left out.

    Args:
        out: folder of the pages and copies of the publications, ready to host (results/site)
    """
    left_out = _write_site(out)
    print(out / "index.html")
    return 2 if 0 < left_out == len(run_folders(paths.PUBLISHED)) else 0


def _write_site(out: Path) -> int:
    """Write the site and count what is left out, with a note on stderr for each."""
    from roofcal.publish.site.write import write_site

    left_out = write_site(paths.PUBLISHED, out)
    for folder in left_out:
        problem = printable(folder.problems[0])
        remark_on_stderr(f"left out of the site: {folder.key}: {problem}")
    return len(left_out)


def verify(*folders: Path, quick: bool = False, json: bool = False) -> int:
    """Print what holds; 2 where a publication does not hold, 3 where one has no manifest.

    Args:
        folders (FOLDER): reports/published/<device>/<environment_id>; default: all publications
        quick: hashes, records and CSV tables alone: seconds instead of a minute or two
        json: for programs
    """
    from roofcal.fitting.parallel import parallel_map
    from roofcal.publish.verify import claimed_twice
    from roofcal.publish.verify import verify as verified

    named = list(folders) or [run.folder for run in run_folders(paths.PUBLISHED)]
    if not named:
        raise ValueError(f"{paths.PUBLISHED}: nothing is published there")
    for folder in named:
        _refuse_other_folder(folder)
    outcomes = parallel_map(partial(verified, quick=quick), named)
    for outcome in [] if json else outcomes:
        words = _NO_MANIFEST if outcome.state == "no manifest" else outcome.state
        print(f"{outcome.folder}: {words}{' (quick)' if quick else ''}")
        for note in outcome.notes:
            print(f"  note: {printable(note)}")
        for problem in outcome.problems:
            remark_on_stderr(f"error: {printable(problem)}")
    twice = [] if folders else list(claimed_twice(paths.PUBLISHED))
    if json:
        publications = [asdict(o) | {"folder": o.folder.as_posix()} for o in outcomes]
        print(dumps({"publications": publications, "problems": twice}))
    for problem in twice:
        remark_on_stderr(f"error: {problem}")
    if twice or any(outcome.problems for outcome in outcomes):
        return 2
    return NO_MANIFEST if any(o.state == "no manifest" for o in outcomes) else 0


def _refuse_other_folder(folder: Path) -> None:
    """Raises ValueError for a folder that is no publication."""
    if not RunFolder.at(folder).environment_file.is_file():
        raise ValueError(
            f"{folder}: is no publication (no environment.jsonl); give folders like "
            f"{paths.PUBLISHED}/<device>/<environment_id>"
        )


PUBLISH: Final = Command({"": publish}, either=("run", "again", "judged", "cards"), is_needed=True)
