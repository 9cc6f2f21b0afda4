"""The stages of a study, which Snakemake calls: plan, compile, measure, calibrate, ...; doctor.

`predict`, `breakeven` and `llm`, which people ask too, have files of their own.
"""

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from roofcal.cli.arguments import (
    Commands,
    add_run_folder,
    check_mode,
    checked_folder,
    json_mapping,
    require,
    whole_number,
    write_or_print,
)
from roofcal.core import paths


def add_doctor(commands: Commands) -> None:
    """Declare `doctor` and its arguments."""
    parser = commands.add_parser("doctor", help="what is here, and what a study here can do")
    parser.add_argument(
        "--write-environment",
        type=Path,
        metavar="RESULTS",
        help="write environment.jsonl of the devices here below RESULTS (on a cluster node)",
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FOLDER",
        help="whether a study with this profile, e.g. profiles/slurm, fits the cluster: 0 or 1",
    )
    parser.add_argument("--json", action="store_true", help="the lines by their heading")
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    """Print what is here; 1 where a profile does not fit the cluster.

    Raises DiscoverError, exit code 2, where a study here would be refused.
    """
    from roofcal.study import doctor

    writing = "--write-environment"
    modes = {"--profile": ("profile",), writing: ("write_environment",), "": ("json",)}
    check_mode(options, modes)
    if options.profile:
        return _preflight(options.profile)
    if options.write_environment:
        for path in doctor.write_environments(paths.DEVICES, options.write_environment):
            print(path)
        return 0
    lines = doctor.examine(paths.DEVICES, paths.PUBLISHED)
    if options.json:
        sections: dict[str, list[str]] = {}
        try:
            for line in lines:
                if line[:1].strip():
                    lines_of_section = sections.setdefault(line.rstrip(":"), [])
                elif line.strip():
                    lines_of_section.append(line.strip())
        finally:  # the lines are there, too, where the last says that a study is refused
            print(json.dumps(sections))
        return 0
    for line in lines:
        print(line)
    return 0


def _preflight(profile: Path) -> int:
    from roofcal.study.cluster import cluster_nodes, preflight
    from roofcal.study.config import load_study

    lines = list(preflight(profile, load_study(paths.CONFIG), cluster_nodes()))
    for line, is_problem in lines:
        print(f"  {'problem: ' if is_problem else ''}{line}")
    return int(any(is_problem for _, is_problem in lines))


def add_plan(commands: Commands) -> None:
    """Declare `plan` and its arguments."""
    parser = commands.add_parser("plan", help="the points of a study: a summary, or one op's file")
    parser.add_argument(
        "--study", choices=("quick", "standard", "full"), help="size for the summary"
    )
    parser.add_argument("--op", help="one op")
    parser.add_argument("--environment", type=Path, help="environment.jsonl of the device")
    parser.add_argument("--slice", type=json_mapping, help="what config says of the op, as JSON")
    parser.add_argument("--out", type=Path, help="write the points here")
    parser.add_argument("--json", action="store_true", help="the summary, for programs")
    parser.set_defaults(run=_plan)


def _plan(options: argparse.Namespace) -> None:
    """Write the points of one op, or print how many there are of each."""
    from roofcal.core.jsonl import read_single_record, write_records
    from roofcal.core.records import Environment
    from roofcal.study.config import load_study
    from roofcal.study.discover import discover
    from roofcal.study.plan import plan_op

    one_op = ("out", "op", "environment", "slice")
    check_mode(options, {"--out": one_op, "": ("study", "op", "json")})
    if options.out:
        require(options, "plan --out", "environment", "slice")
        if options.op not in (None, options.slice.get("op")):
            raise ValueError(f"--op {options.op}, and --slice is of op {options.slice.get('op')}")
        environment = read_single_record(options.environment, Environment)
        write_records(options.out, plan_op(options.slice, environment))
        return
    study = load_study(paths.CONFIG, {"study": options.study} if options.study else None)
    summaries: list[dict[str, Any]] = []
    for environment in discover(paths.DEVICES):
        slices = {op: study.op_slice(op, environment.backend) for op in study.ops}
        named = [options.op] if options.op else [op for op in slices if slices[op]["sweeps"]]
        ops = {}
        for op in named:
            points = plan_op(slices[op], environment)
            groups = len({point.group_key for point in points})
            ops[op] = {"points": len(points), "groups": groups}
        names = {"device": environment.device, "environment": environment.environment_id}
        summaries.append(names | {"ops": ops})
    if options.json:
        print(json.dumps(summaries))
        return
    for summary in summaries:
        print(f"{summary['device']} ({summary['environment']})")
        for op, count in summary["ops"].items():
            print(f"  {op:14s}{count['points']:6d} points in {count['groups']} groups")


def add_compile(commands: Commands) -> None:
    """Declare `compile` and its arguments."""
    text = "compile the kernels of a plan for a GPU, before it is measured"
    parser = commands.add_parser("compile", help=text)
    for name in ("plan", "environment"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--processes",
        type=whole_number,
        metavar="N",
        help="compilers that run at once (default: one per core)",
    )
    parser.add_argument("--out", type=Path, help="write what became of each point here, as JSON")
    parser.set_defaults(run=_compile)


def _compile(options: argparse.Namespace) -> None:
    """Say which points are not compiled, and why; no failure: they are compiled when timed."""
    from roofcal.core.files import write_bytes
    from roofcal.core.machine.cores import usable_cores
    from roofcal.measure.compile import compile_plan

    processes = options.processes or usable_cores()
    lines = []
    for compiled in compile_plan(options.plan, options.environment, processes):
        lines.append(json.dumps(compiled) + "\n")
        if compiled["reason"]:
            print(f"{compiled['point']}: {compiled['reason']}", flush=True)
    if options.out:
        write_bytes(options.out, "".join(lines).encode())


def add_measure(commands: Commands) -> None:
    """Declare `measure` and its arguments."""
    parser = commands.add_parser("measure", help="measure a plan; goes on where it was interrupted")
    for name in ("plan", "environment", "journal", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--timing", type=json_mapping, required=True, help="timing protocol, JSON")
    parser.add_argument(
        "--world-sizes",
        type=whole_number,
        nargs="+",
        metavar="N",
        help="points that so many devices share, and no others (default: the whole plan)",
    )
    parser.add_argument(
        "--compile-first",
        action="store_true",
        help="compile all of the plan with all cores before the GPU is taken (see `compile`)",
    )
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        choices=("unsupported", "incorrect", "out_of_memory", "timeout", "failed"),
        help="measure points of this status again (may be given several times)",
    )
    parser.set_defaults(run=_measure)


def _measure(options: argparse.Namespace) -> None:
    from roofcal.core.jsonl import read_single_record
    from roofcal.core.records import Environment
    from roofcal.measure.session import Job, measure
    from roofcal.study.discover import check_environment
    from roofcal.study.staleness import measure_hash

    check_environment(read_single_record(options.environment, Environment), paths.DEVICES)
    if options.compile_first:
        files = [f"--plan={options.plan}", f"--environment={options.environment}"]
        subprocess.run([sys.executable, "-m", "roofcal", "compile", *files], check=False)
    # A time limit (timeout, SLURM, Snakemake) ends a session like Ctrl-C: its end is recorded.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = Job(
        plan=options.plan,
        environment=options.environment,
        timing=options.timing,
        journal=options.journal,
        out=options.out,
        code_hash_of=measure_hash,
        retry=tuple(options.retry),
        world_sizes=options.world_sizes,
    )
    measure(job)


def add_join(commands: Commands) -> None:
    """Declare `join` and its arguments."""
    text = "what jobs of `measure --world-sizes` measured -> the measurements of their op"
    parser = commands.add_parser("join", help=text)
    parser.add_argument("parts", type=Path, nargs="+", metavar="PART", help="what a job measured")
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.set_defaults(run=_join)


def _join(options: argparse.Namespace) -> None:
    from roofcal.study.cluster import join_measurements

    join_measurements(options.plan, options.parts, options.out)


def add_calibrate(commands: Commands) -> None:
    """Declare `calibrate` and its arguments."""
    parser = commands.add_parser("calibrate", help="probe measurements of a run -> its constants")
    add_run_folder(parser)
    parser.add_argument("--out", type=Path, required=True)
    parser.set_defaults(run=_calibrate)


def _calibrate(options: argparse.Namespace) -> None:
    from roofcal.ask.sources import datasheet
    from roofcal.calibrate.calibration import calibrate
    from roofcal.core.jsonl import write_records

    folder = checked_folder(options)
    write_records(options.out, [calibrate(folder, datasheet(folder.parent.name))])


def add_learning(commands: Commands) -> None:
    """Declare `learning` and its arguments."""
    text = "error of predictions by the number of probes they were fitted on, as CSV"
    parser = commands.add_parser("learning", help=text)
    add_run_folder(parser)
    parser.add_argument("--out", type=Path, help="write here, default: the terminal")
    parser.set_defaults(run=_learning)


def _learning(options: argparse.Namespace) -> None:
    from roofcal.ask.sources import datasheet
    from roofcal.calibrate.learning import learning_csv

    folder = checked_folder(options)
    write_or_print(learning_csv(folder, datasheet(folder.parent.name)), options.out)


def add_report(commands: Commands) -> None:
    """Declare `report` and its arguments."""
    parser = commands.add_parser("report", help="the HTML page of one or more runs")
    parser.add_argument(
        "--run",
        action="append",
        required=True,
        dest="folders",
        metavar="DIR[=DERIVED]",
        help="run folder; DERIVED holds calibration and predictions where they stand apart",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="every figure as an SVG file below this folder"
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> None:
    from roofcal.claims.ledgers import load_claims
    from roofcal.core.files import check_folder
    from roofcal.report.write import write_report

    pairs = [folder.partition("=")[::2] for folder in options.folders]
    runs = [(Path(folder), Path(derived or folder)) for folder, derived in pairs]
    for folder in dict.fromkeys(folder for run in runs for folder in run):
        check_folder(folder)
    claims = load_claims(paths.CLAIMS)
    for line in write_report(runs, options.out, paths.DEVICES, claims, options.figures):
        print(line)
    print(f"report: {options.out.resolve()}")
