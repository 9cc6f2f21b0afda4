"""`predict`: seconds of one point, of a CSV of points, or of the plan of a run; formulas."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofcal.cli import symbolic
from roofcal.cli.arguments import (
    Commands,
    calibration_file,
    datasheet,
    device_sources,
    require,
    whole_number,
    write_or_print,
)
from roofcal.core.paths import RunFolder

if TYPE_CHECKING:
    from roofcal.ops.time_models import Sources


def add_predict(commands: Commands) -> None:
    """Declare `predict` and its arguments."""
    parser = commands.add_parser("predict", help="seconds of a point, of a CSV, or of a run")
    parser.add_argument("--device", help="e.g. nvidia-h200")
    parser.add_argument("--environment", help="environment id; default: the latest calibration")
    parser.add_argument("--op", default="gemm")
    parser.add_argument("--recipe", default="bf16")
    parser.add_argument("--provider", default="", help="whose kernels; default: the fastest known")
    parser.add_argument("--world-size", type=whole_number, default=1, help="devices of the op")
    for axis in ("m", "n", "k", "rows", "cols"):
        parser.add_argument(f"--{axis}", type=whole_number)
    parser.add_argument(
        "--model", default="calibrated", help="calibrated, wave, torchao or datasheet"
    )
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    parser.add_argument("--points", type=Path, metavar="CSV", help="columns recipe,m,n,k")
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
    symbolic.check_options(options)
    if options.folder:
        _predict_run(options)
        return
    from roofcal.ask.points import predict_csv

    if options.also:
        raise ValueError("--also needs --run: it adds models to the predictions of a run folder")
    if not options.device:
        raise ValueError("predict needs --device, e.g. --device nvidia-h200")
    if options.symbolic:
        symbolic.print_expression(options)
        return
    sources, folder = device_sources(options.device, options.environment, options.model)
    if not options.points:
        _predict_point(options, sources)
        return
    write_or_print(predict_csv(options.points, options.model, sources), options.out)
    print(f"from: {folder}", file=sys.stderr)


def _predict_run(options: argparse.Namespace) -> None:
    from roofcal.core.jsonl import write_records
    from roofcal.models.run import predict_run

    run = RunFolder.at(options.folder)
    predictions = predict_run(
        run.folder,
        calibration_file(options),
        options.op,
        datasheet(run.device),
        also=options.also,
    )
    write_records(options.out or run.predictions_file(options.op), predictions)


def _predict_point(options: argparse.Namespace, sources: "Sources") -> None:
    from roofcal.ask.points import as_dict, check_point, predict_point
    from roofcal.core.records import PlanPoint

    point = PlanPoint(
        op=options.op,
        provider=options.provider,
        recipe=options.recipe,
        shape={},
        device=options.device,
        world_size=options.world_size,
    )
    check_point(point)
    point = replace(point, shape=_shape(options))
    answer = as_dict(point, predict_point(point, options.model, sources), sources)
    print(json.dumps(answer) if options.json else _sentence(answer))


def _shape(options: argparse.Namespace) -> dict[str, int]:
    from roofcal.ops import BY_NAME

    axes = BY_NAME[options.op].axes
    require(options, f"op {options.op}", *axes)
    return {axis: getattr(options, axis) for axis in axes}


def _sentence(answer: dict[str, Any]) -> str:
    """A prediction for a person, three lines."""
    from roofcal.core.units import format_seconds

    low, high = answer["predicted_low_s"], answer["predicted_high_s"]
    span = f" (95 %: {format_seconds(low)} to {format_seconds(high)})" if low else ""
    rates = f"{answer['predicted_flops_per_s'] / 1e12:.4g} TFLOP/s, "
    rates += f"{answer['predicted_bytes_per_s'] / 1e12:.4g} TB/s"
    described = "its wave description" if answer["model"] == "wave" else "its datasheet"
    origin = answer["environment"] or described
    return (
        f"{format_seconds(answer['predicted_s'])}{span}, bound by {answer['bound_by']}\n"
        f"{rates}\n"
        f"model {answer['model']}, {answer['device']}, {origin}"
    )
