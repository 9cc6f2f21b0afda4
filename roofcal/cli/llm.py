"""`llm`: prefill and decode of a language model, by operator, and whether it fits."""

import argparse
import json

from roofcal.cli.arguments import (
    MAP_OF_RUN,
    PRICES,
    Commands,
    add_device,
    add_map_of_run,
    add_prices,
    calibration_file,
    check_mode,
    checked_folder,
    require,
    show,
    whole_number,
    write_or_print,
)
from roofcal.ask.answers import Answer
from roofcal.core import paths


def add_llm(commands: Commands) -> None:
    """Declare `llm` and its arguments."""
    parser = commands.add_parser("llm", help="prefill and decode of a language model")
    parser.add_argument(
        "--model",
        help="a file of config/models, e.g. llama3-70b; or the path of one like it, or of a "
        "config.json of transformers",
    )
    add_device(parser)
    parser.add_argument("--recipe", default="bf16", help="bf16, fp8_tensorwise, fp8_axiswise, int4")
    parser.add_argument(
        "--by",
        choices=("calibrated", "wave", "torchao", "datasheet", "notebook"),
        default="calibrated",
        help="the model of time; notebook: the figures of the MI300X notebook, as it has them",
    )
    parser.add_argument(
        "--tp", type=whole_number, help="tensor-parallel degree; default: the fewest GPUs that fit"
    )
    parser.add_argument("--pp", type=whole_number, help="pipeline stages; default: as --tp")
    parser.add_argument("--batch", type=whole_number, default=1, help="requests served together")
    parser.add_argument("--prompt", type=whole_number, default=2048, help="tokens of each prompt")
    parser.add_argument("--output", type=whole_number, default=256, help="tokens of each answer")
    parser.add_argument("--chunk", type=whole_number, help="most tokens of a prefill pass (8192)")
    parser.add_argument(
        "--link",
        choices=("auto", "datasheet", "calibrated"),
        default="auto",
        help="where the time of collectives comes from; auto: calibrated where it is",
    )
    parser.add_argument(
        "--curve", action="store_true", help="throughput against latency, a line per batch"
    )
    parser.add_argument(
        "--sweep", action="store_true", help="every cut over tp x pp, and batches on each"
    )
    parser.add_argument("--gpus", type=whole_number, help="with --sweep: the most GPUs (8)")
    parser.add_argument("--json", action="store_true", help="SI units, for programs")
    add_prices(parser)
    add_map_of_run(parser, "every model on the device")
    parser.set_defaults(run=_llm)


def _llm(options: argparse.Namespace) -> None:
    """Print an estimate, a curve over batches, a sweep over cuts, or the table of a run."""
    asked = ("model", "device", "environment", "recipe", "by", "prompt", "output", "chunk", "link")
    one_cut = (*asked, "json", "tp", "pp")
    is_cut = options.tp is not None or options.pp is not None  # else the batch decides the cut
    modes = {
        "--run": MAP_OF_RUN,
        "--by notebook": ("by", "json"),
        "--sweep": (*asked, "json", "sweep", "gpus"),
        "--curve": (*one_cut, "curve", *(() if is_cut else ("batch",))),
        "": (*one_cut, "batch", *PRICES),
    }
    is_notebook = options.by == "notebook" and not options.folder
    check_mode(options, modes, "--by notebook" if is_notebook else None)
    if options.folder:
        _table(options)
        return
    if options.by == "notebook":
        _notebook(options)
        return
    from roofcal import api

    require(options, "llm", "model", "device")
    if options.link != "auto" and options.by != "calibrated":
        raise ValueError(f"--link {options.link} is for --by calibrated; {options.by} has its own")
    names = ("device", "environment", "model", "link", "recipe", "by", "prompt", "output")
    given = {name: getattr(options, name) for name in names}
    if options.chunk:
        given["chunk"] = options.chunk
    if options.sweep:
        answer: Answer = api.llm_sweep(**given, **({"gpus": options.gpus} if options.gpus else {}))
    else:
        given |= {name: getattr(options, name) for name in ("tp", "pp", "batch")}
        prices = {name: getattr(options, name) for name in PRICES}
        answer = api.llm_curve(**given) if options.curve else api.llm(**given, **prices)
    show(answer, as_json=options.json)


def _notebook(options: argparse.Namespace) -> None:
    from roofcal.ask.llm.notebook import as_dict, as_text

    print(json.dumps(as_dict()) if options.json else as_text())


def _table(options: argparse.Namespace) -> None:
    from roofcal.ask.llm.csv_table import run_table
    from roofcal.ask.sources import datasheet
    from roofcal.core.language_models import load_models

    spec = datasheet(options.folder.parent.name)
    text = run_table(
        checked_folder(options), calibration_file(options), spec, load_models(paths.MODELS)
    )
    write_or_print(text, options.out)
