"""`llm`: prefill and decode of a language model, by operator, and whether it fits."""

import argparse
import json
from typing import TYPE_CHECKING

from roofcal.cli.arguments import (
    Commands,
    add_map_of_run,
    calibration_file,
    datasheet,
    whole_number,
    write_or_print,
)
from roofcal.core import paths

if TYPE_CHECKING:
    from roofcal.ask.llm.deployment import Deployment
    from roofcal.ops.time_models import Sources


def add_llm(commands: Commands) -> None:
    """Declare `llm` and its arguments."""
    parser = commands.add_parser("llm", help="prefill and decode of a language model")
    parser.add_argument("--model", help="a file of config/models, e.g. llama3-70b")
    parser.add_argument("--device", help="e.g. nvidia-h200")
    parser.add_argument("--environment", help="environment id; default: the latest calibration")
    parser.add_argument("--recipe", default="bf16", help="bf16, fp8_tensorwise, fp8_axiswise, int4")
    parser.add_argument("--tp", type=whole_number, default=1, help="tensor-parallel degree")
    parser.add_argument("--pp", type=whole_number, default=1, help="pipeline stages")
    parser.add_argument("--batch", type=whole_number, default=1, help="requests served together")
    parser.add_argument("--prompt", type=whole_number, default=2048, help="tokens of each prompt")
    parser.add_argument("--output", type=whole_number, default=256, help="tokens of each answer")
    parser.add_argument("--chunk", type=whole_number, help="most tokens of a prefill pass: 8192")
    parser.add_argument(
        "--link",
        choices=("auto", "datasheet", "calibrated"),
        default="auto",
        help="where the time of collectives comes from; auto: calibrated where it is",
    )
    parser.add_argument("--curve", action="store_true", help="throughput against latency")
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    add_map_of_run(parser, "every model on the device")
    parser.set_defaults(run=_llm)


def _llm(options: argparse.Namespace) -> None:
    """Print the estimate of one batch, of every batch to the largest, or the table of a run."""
    if options.folder:
        _table(options)
        return
    from roofcal.ask.llm.csv_table import as_dict
    from roofcal.ask.llm.estimate import estimate, estimates_by_batch
    from roofcal.ask.llm.text_report import batches_text, estimate_text

    missing = [f"--{name}" for name in ("model", "device") if not getattr(options, name)]
    if missing:
        raise ValueError(f"llm needs {' '.join(missing)}, e.g. --model llama3-70b")
    deployment, sources = _deployment(options), _sources(options)
    if options.curve:
        estimates = estimates_by_batch(deployment, sources)
        answers = [as_dict(answer, operators=False) for answer in estimates]
        print(json.dumps({"curve": answers}) if options.json else batches_text(estimates))
        return
    answer = estimate(deployment, sources)
    print(json.dumps(as_dict(answer)) if options.json else estimate_text(answer))


def _table(options: argparse.Namespace) -> None:
    from roofcal.ask.llm.csv_table import run_table
    from roofcal.core.language_models import load_models

    spec = datasheet(options.folder.parent.name)
    text = run_table(options.folder, calibration_file(options), spec, load_models(paths.MODELS))
    write_or_print(text, options.out)


def _deployment(options: argparse.Namespace) -> "Deployment":
    from roofcal.ask.llm.deployment import CHUNK, Deployment, Workload
    from roofcal.core.language_models import load_model

    workload = Workload(
        batch=options.batch,
        prompt=options.prompt,
        output=options.output,
        chunk=options.chunk or CHUNK,
    )
    return Deployment(
        model=load_model(paths.MODELS, options.model),
        recipe=options.recipe,
        tensor=options.tp,
        pipeline=options.pp,
        workload=workload,
        link=options.link,
    )


def _sources(options: argparse.Namespace) -> "Sources":
    from roofcal.models.calibrations import find_calibration
    from roofcal.ops.time_models import Sources

    _, calibration = find_calibration(
        options.device, options.environment, paths.PUBLISHED, paths.RESULTS
    )
    return Sources(calibration=calibration, spec=datasheet(options.device))
