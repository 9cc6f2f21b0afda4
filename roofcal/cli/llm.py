"""`llm`: prefill and decode of a language model, by operator, and whether it fits."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofcal.cli import places
from roofcal.cli.arguments import whole_number, write_or_print
from roofcal.cli.places import Commands, datasheet

if TYPE_CHECKING:
    from roofcal.ask.llm.workload import Question
    from roofcal.models.sources import Sources

MODELS: Final = Path("config/models")


def add(commands: Commands) -> None:
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
    parser.add_argument(
        "--run", type=Path, dest="folder", help="every model on the device of a run folder, as CSV"
    )
    parser.add_argument("--calibration", type=Path, help="with --run: the calibration to use")
    parser.add_argument("--out", type=Path, help="with --run: write here")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the estimate of one batch, of every batch to the largest, or the table of a run."""
    if options.folder:
        _table(options)
        return
    from roofcal.ask.llm.answer import as_dict
    from roofcal.ask.llm.estimate import curve, estimate
    from roofcal.ask.llm.wording import curve_lines, sentences

    missing = [f"--{name}" for name in ("model", "device") if not getattr(options, name)]
    if missing:
        raise ValueError(f"llm needs {' '.join(missing)}, e.g. --model llama3-70b")
    question, sources = _question(options), _sources(options)
    if options.curve:
        points = curve(question, sources)
        answers = [as_dict(point, operators=False) for point in points]
        print(json.dumps({"curve": answers}) if options.json else curve_lines(points))
        return
    found = estimate(question, sources)
    print(json.dumps(as_dict(found)) if options.json else sentences(found))


def _table(options: argparse.Namespace) -> None:
    from roofcal.ask.llm.table import run_table
    from roofcal.core.language_models import load_models

    calibration = options.calibration or options.folder / "calibration.jsonl"
    spec = datasheet(options.folder.parent.name)
    text = run_table(options.folder, calibration, spec, load_models(MODELS))
    write_or_print(text, options.out)


def _question(options: argparse.Namespace) -> "Question":
    from roofcal.ask.llm.workload import CHUNK, Question, Workload
    from roofcal.core.language_models import load_model

    workload = Workload(
        batch=options.batch,
        prompt=options.prompt,
        output=options.output,
        chunk=options.chunk or CHUNK,
    )
    return Question(
        model=load_model(MODELS, options.model),
        recipe=options.recipe,
        tensor=options.tp,
        pipeline=options.pp,
        workload=workload,
        link=options.link,
    )


def _sources(options: argparse.Namespace) -> "Sources":
    from roofcal.models.calibrations import find_calibration
    from roofcal.models.sources import Sources

    _, calibration = find_calibration(
        options.device, options.environment, places.PUBLISHED, places.RESULTS
    )
    return Sources(calibration=calibration, spec=datasheet(options.device))
