"""`predict`: seconds of one point, of a CSV of points, or of the plan of a run; formulas."""

import argparse
import sys
from pathlib import Path
from typing import Final

from roofcal.cli import symbolic
from roofcal.cli.arguments import (
    Commands,
    add_device,
    add_model,
    add_sizes,
    calibration_file,
    check_mode,
    checked_folder,
    fill_axes,
    option_of,
    refuse_given,
    require,
    show,
    study_axes,
    whole_number,
)
from roofcal.core.paths import RunFolder

_DEFAULT_RECIPE: Final = "bf16"


def add_predict(commands: Commands) -> None:
    """Declare `predict` and its arguments."""
    from roofcal.ops import OPS

    parser = commands.add_parser("predict", help="seconds of a point, of a CSV, or of a run")
    add_sizes(parser, "MxNxK")
    add_device(parser)
    parser.add_argument(
        "--op",
        default="gemm",
        help=f"{', '.join(op.name for op in OPS if op.role == 'study')}; default: gemm",
    )
    parser.add_argument("--recipe", help=f"default: {_DEFAULT_RECIPE}")
    parser.add_argument("--provider", default="", help="whose kernels; default: the fastest known")
    parser.add_argument(
        "--world-size", type=whole_number, default=1, help="devices of an all_gather_matmul"
    )
    for axis in study_axes():
        parser.add_argument(option_of(axis), type=whole_number, help="a size, instead of one word")
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    parser.add_argument(
        "--points", type=Path, metavar="CSV", help="columns recipe and the axes of --op: m,n,k"
    )
    parser.add_argument("--run", type=Path, dest="folder", help="predict the plan of a run folder")
    parser.add_argument("--calibration", type=Path, help="with --run: the calibration to use")
    parser.add_argument(
        "--also",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="with --run: calibrations of the same device in other environments",
    )
    parser.add_argument("--out", type=Path, help="with --run or --points: write here")
    symbolic.add_options(parser)
    parser.set_defaults(run=_predict)


def _predict(options: argparse.Namespace) -> None:
    """Answer one point, a CSV or a run folder, or print a formula."""
    _check_arguments(options)
    if options.folder:
        _predict_run(options)
        return
    from roofcal.ask.points import predict_csv

    if not options.device:
        raise ValueError("predict needs --device, e.g. --device nvidia-h200")
    if options.symbolic:
        symbolic.check_options(options)
        fill_axes(options, "mnk")
        options.recipe = options.recipe or _DEFAULT_RECIPE
        symbolic.print_expression(options)
        return
    if not options.points:
        _predict_point(options)
        return
    from roofcal.ask.sources import device_sources

    sources, folder = device_sources(options.device, options.environment, options.model)
    answer = predict_csv(
        options.points,
        options.model,
        sources,
        options.provider,
        op=options.op,
        world_size=options.world_size,
    )
    show(answer, as_json=options.json, out=options.out)
    print(f"from: {folder}", file=sys.stderr)


def _check_arguments(options: argparse.Namespace) -> None:
    """Raises ValueError naming the arguments that what is asked for does not read."""
    asked = ("device", "environment", "op", "provider", "world_size", "model", "json")
    modes = {
        "--symbolic": (*symbolic.READ, "device", "recipe", "sizes", *"mnk", "model", "json", "out"),
        "--run": ("folder", "op", "calibration", "also", "out"),
        "--points": (*asked, "points", "out"),
        "": (*asked, "recipe", "sizes", *study_axes()),
    }
    check_mode(options, modes)


def _predict_run(options: argparse.Namespace) -> None:
    from roofcal.ask.sources import datasheet
    from roofcal.core.jsonl import write_records
    from roofcal.models.run import predict_run

    run = RunFolder.at(checked_folder(options))
    predictions = predict_run(
        run.folder,
        calibration_file(options),
        options.op,
        datasheet(run.device),
        also=options.also,
    )
    write_records(options.out or run.predictions_file(options.op), predictions)


def _predict_point(options: argparse.Namespace) -> None:
    from roofcal import api
    from roofcal.ask.sources import device_sources
    from roofcal.ops import BY_NAME

    op = BY_NAME.get(options.op)
    if options.recipe is None and op and _DEFAULT_RECIPE not in op.recipes:
        raise ValueError(f"op {options.op} needs --recipe, one of: {', '.join(op.recipes)}")
    if op:
        refuse_given(options, {*study_axes()} - {*op.axes}, f"--op {options.op}")
        fill_axes(options, op.axes)
        if any(getattr(options, axis) is None for axis in op.axes):
            device_sources(options.device, options.environment, options.model)  # its mistake first
        require(options, f"op {options.op}", *op.axes)
    answer = api.predict(
        options.device,
        options.op,
        options.recipe or _DEFAULT_RECIPE,
        provider=options.provider,
        model=options.model,
        environment=options.environment,
        world_size=options.world_size,
        **{axis: getattr(options, axis) for axis in (op.axes if op else ())},
    )
    show(answer, as_json=options.json)
