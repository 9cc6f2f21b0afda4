"""`predict`: seconds of one point, of a CSV of points, or of the plan of a run; formulas."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofcal.cli import symbolic
from roofcal.cli.arguments import (
    Commands,
    add_device,
    add_model,
    add_sizes,
    asked_sources,
    calibration_file,
    check_mode,
    checked_folder,
    csv_as_json,
    fill_axes,
    option_of,
    refuse_given,
    require,
    study_axes,
    whole_number,
    write_or_print,
)
from roofcal.core.paths import RunFolder

if TYPE_CHECKING:
    from roofcal.ops.time_models import Sources


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
    sources, folder = asked_sources(options, options.model)
    run = RunFolder.at(folder) if sources.calibration else None
    if not options.points:
        _predict_point(options, sources, run)
        return
    text = predict_csv(
        options.points,
        options.model,
        sources,
        options.provider,
        op=options.op,
        world_size=options.world_size,
    )
    write_or_print(csv_as_json(text) if options.json else text, options.out)
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


def _predict_point(options: argparse.Namespace, sources: "Sources", run: RunFolder | None) -> None:
    from roofcal.ask.names import recipe_named
    from roofcal.ask.point_text import as_text
    from roofcal.ask.points import as_dict, check_point, predict_point
    from roofcal.core.records import PlanPoint
    from roofcal.ops import BY_NAME

    recipes = BY_NAME[options.op].recipes if options.op in BY_NAME else ()
    if options.recipe is None and recipes and _DEFAULT_RECIPE not in recipes:
        raise ValueError(f"op {options.op} needs --recipe, one of: {', '.join(recipes)}")
    point = PlanPoint(
        op=options.op,
        provider=options.provider,
        recipe=recipe_named(options.recipe or _DEFAULT_RECIPE, recipes),
        shape={},
        device=options.device,
        world_size=options.world_size,
    )
    check_point(point)
    point = replace(point, shape=_shape(options))
    answer = as_dict(point, predict_point(point, options.model, sources, run), sources)
    print(json.dumps(answer) if options.json else as_text(answer))


def _shape(options: argparse.Namespace) -> dict[str, int]:
    from roofcal.ops import BY_NAME

    axes = BY_NAME[options.op].axes
    refuse_given(options, {*study_axes()} - {*axes}, f"--op {options.op}")
    fill_axes(options, axes)
    require(options, f"op {options.op}", *axes)
    return {axis: getattr(options, axis) for axis in axes}
