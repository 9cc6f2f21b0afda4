"""The command line: `python -m roofcal doctor | plan | measure | calibrate | predict | ...`.

Each command calls one function of its stage, imported only then, so that --help and predict stay
fast. A mistake of the user ends in one message and exit code 2, never in a traceback.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofcal.devices import DeviceSpec
    from roofcal.records import Calibration

DEVICES = Path("config/devices")
PUBLISHED = Path("reports/published")
RESULTS = Path("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 after a mistake that its message explains."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "stopped; what was measured is kept, and the next run goes on from there",
            file=sys.stderr,
        )
        return 130
    return 0


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m roofcal", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (_doctor, _plan, _measure, _calibrate, _predict, _table, _report, _publish):
        add(commands)
    return parser


Commands = argparse._SubParsersAction  # the only name argparse has for it


def _doctor(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("doctor", help="what is here, and what a study here can do")
    parser.add_argument(
        "--write-environment",
        type=Path,
        metavar="RESULTS",
        help="write environment.jsonl of the devices here below RESULTS (on a cluster node)",
    )
    parser.set_defaults(run=_run_doctor)


def _run_doctor(options: argparse.Namespace) -> None:
    from roofcal import doctor

    if options.write_environment:
        for path in doctor.write_environments(DEVICES, options.write_environment):
            print(path)
        return
    for line in doctor.examine(DEVICES, PUBLISHED):
        print(line)


def _plan(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("plan", help="the points of a study: a summary, or one op's file")
    parser.add_argument(
        "--study", choices=("quick", "standard", "full"), help="size for the summary"
    )
    parser.add_argument("--op", help="one op")
    parser.add_argument("--environment", type=Path, help="environment.jsonl of the device")
    parser.add_argument("--slice", type=json.loads, help="what config says of the op, as JSON")
    parser.add_argument("--out", type=Path, help="write the points here")
    parser.set_defaults(run=_run_plan)


def _run_plan(options: argparse.Namespace) -> None:
    from roofcal.config import load_study
    from roofcal.discover import discover
    from roofcal.plan import plan_op
    from roofcal.records import Environment, read_records, write_records

    if options.out:
        environment = read_records(options.environment, Environment)[0]
        write_records(options.out, plan_op(options.slice, environment))
        return
    study = load_study(Path("config"), {"study": options.study} if options.study else None)
    for environment in discover(DEVICES):
        print(f"{environment.device} ({environment.environment_id})")
        for op in [options.op] if options.op else study.ops:
            points = plan_op(study.op_slice(op, environment.backend), environment)
            groups = len({point.group_key for point in points})
            print(f"  {op:14s}{len(points):6d} points in {groups} groups")


def _measure(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("measure", help="measure a plan; goes on where it was interrupted")
    for name in ("plan", "environment", "journal", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--timing", type=json.loads, required=True, help="timing protocol, JSON")
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        choices=("unsupported", "incorrect", "out_of_memory", "timeout", "failed"),
        help="measure points of this status again (may be given several times)",
    )
    parser.set_defaults(run=_run_measure)


def _run_measure(options: argparse.Namespace) -> None:
    from roofcal.discover import check_environment
    from roofcal.measure.session import Job, measure
    from roofcal.records import Environment, read_records

    check_environment(read_records(options.environment, Environment)[0], DEVICES)
    # A time limit (timeout, SLURM, Snakemake) ends a session like Ctrl-C: its end is recorded.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = Job(
        plan=options.plan,
        environment=options.environment,
        timing=options.timing,
        journal=options.journal,
        out=options.out,
        retry=tuple(options.retry),
    )
    measure(job)


def _calibrate(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("calibrate", help="probe measurements of a run -> its constants")
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="run folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.set_defaults(run=_run_calibrate)


def _run_calibrate(options: argparse.Namespace) -> None:
    from roofcal.calibrate.calibration import calibrate
    from roofcal.records import write_records

    spec = _datasheet(options.folder.parent.name)
    write_records(options.out, [calibrate(options.folder, spec)])


def _datasheet(device: str) -> "DeviceSpec | None":
    from roofcal.devices import load_devices

    return load_devices(DEVICES).get(device)


def _predict(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("predict", help="seconds of a point, of a CSV, or of a run")
    parser.add_argument("--device", help="e.g. nvidia-h200")
    parser.add_argument("--environment", help="environment id; default: the latest calibration")
    parser.add_argument("--op", default="gemm")
    parser.add_argument("--recipe", default="bf16")
    for axis in ("m", "n", "k", "rows", "cols"):
        parser.add_argument(f"--{axis}", type=_size)
    parser.add_argument(
        "--model", choices=("calibrated", "torchao", "datasheet"), default="calibrated"
    )
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    parser.add_argument("--points", type=Path, metavar="CSV", help="columns recipe,m,n,k")
    parser.add_argument("--run", type=Path, dest="folder", help="predict the plan of a run folder")
    parser.add_argument("--calibration", type=Path, help="with --run: the calibration to use")
    parser.add_argument("--out", type=Path, help="with --run or --points: write here")
    parser.set_defaults(run=_run_predict)


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _run_predict(options: argparse.Namespace) -> None:
    if options.folder:
        _predict_run(options)
        return
    from roofcal.predict.find import find_calibration
    from roofcal.predict.points import predict_csv

    if not options.device:
        raise ValueError("predict needs --device, e.g. --device nvidia-h200")
    folder, calibration = find_calibration(options.device, options.environment, PUBLISHED, RESULTS)
    if not options.points:
        _predict_point(options, calibration)
        return
    text = predict_csv(options.points, calibration)
    _give(text, options.out)
    print(f"calibration: {folder}", file=sys.stderr)


def _give(text: str, out: Path | None) -> None:
    from roofcal.records import write_bytes

    if out:
        write_bytes(out, text.encode())
    else:
        sys.stdout.write(text)


def _predict_run(options: argparse.Namespace) -> None:
    from roofcal.predict.run import predict_run
    from roofcal.records import write_records

    calibration = options.calibration or options.folder / "calibration.jsonl"
    spec = _datasheet(options.folder.parent.name)
    predictions = predict_run(options.folder, calibration, options.op, spec)
    out = options.out or options.folder / "predictions" / f"{options.op}.jsonl"
    write_records(out, predictions)


def _predict_point(options: argparse.Namespace, calibration: "Calibration") -> None:
    from roofcal.predict.points import as_dict, check_point, predict_point
    from roofcal.records import PlanPoint

    point = PlanPoint(
        op=options.op, provider="", recipe=options.recipe, shape={}, device=options.device
    )
    check_point(point, None)
    point = replace(point, shape=_shape(options))
    # A datasheet costs a tenth of a second to read; the calibrated model needs none.
    spec = None if options.model == "calibrated" else _datasheet(options.device)
    prediction = predict_point(point, options.model, calibration, spec)
    answer = as_dict(point, prediction, calibration)
    print(json.dumps(answer) if options.json else _sentence(answer))


def _shape(options: argparse.Namespace) -> dict[str, int]:
    from roofcal.ops import BY_NAME

    axes = BY_NAME[options.op].axes
    missing = [f"--{axis}" for axis in axes if getattr(options, axis, None) is None]
    if missing:
        raise ValueError(f"op {options.op} needs {' '.join(missing)}")
    return {axis: getattr(options, axis) for axis in axes}


def _sentence(answer: dict[str, Any]) -> str:
    """A prediction for a person, three lines."""
    from roofcal.model.units import format_seconds

    low, high = answer["predicted_low_s"], answer["predicted_high_s"]
    span = f" (95 %: {format_seconds(low)} to {format_seconds(high)})" if low else ""
    rates = f"{answer['predicted_flops_per_s'] / 1e12:.4g} TFLOP/s, "
    rates += f"{answer['predicted_bytes_per_s'] / 1e12:.4g} TB/s"
    return (
        f"{format_seconds(answer['predicted_s'])}{span}, bound by {answer['bound_by']}\n"
        f"{rates}\n"
        f"model {answer['model']}, {answer['device']}, {answer['environment']}"
    )


def _table(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("table", help="the tidy frame of an op, one row per point")
    parser.add_argument("--device", required=True)
    parser.add_argument("--op", required=True)
    parser.add_argument("--environment", help="default: the latest calibrated one")
    parser.add_argument("--format", choices=("csv", "json", "markdown"), default="csv")
    parser.set_defaults(run=_run_table)


def _run_table(options: argparse.Namespace) -> None:
    from roofcal.report.export import write_table
    from roofcal.runs import find_run

    run = find_run(options.device, options.environment)
    text = write_table(run.folder, run.derived, options.op, DEVICES, options.format)
    sys.stdout.write(text)


def _report(commands: "Commands[argparse.ArgumentParser]") -> None:
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
    parser.set_defaults(run=_run_report)


def _run_report(options: argparse.Namespace) -> None:
    from roofcal.report.html import write_report

    pairs = [folder.partition("=")[::2] for folder in options.folders]
    runs = [(Path(folder), Path(derived or folder)) for folder, derived in pairs]
    write_report(runs, options.out, DEVICES)
    print(f"report: {options.out.resolve()}")


def _publish(commands: "Commands[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser("publish", help="freeze a finished run under reports/published")
    parser.add_argument("--run", type=Path, required=True, dest="folder", help="run folder")
    parser.set_defaults(run=_run_publish)


def _run_publish(options: argparse.Namespace) -> None:
    from roofcal.publish import publish

    print(publish(options.folder, PUBLISHED, DEVICES))
