"""`judge`: a model of time held against products that somebody else measured."""

import argparse
from pathlib import Path

from roofcal.cli.arguments import Commands, add_device, add_model, show


def add_judge(commands: Commands) -> None:
    """Declare `judge` and its arguments."""
    text = "errors of a model on products that somebody else measured, by regime"
    parser = commands.add_parser("judge", help=text)
    parser.add_argument(
        "table", type=Path, metavar="CSV", help="columns recipe,m,n,k,seconds and maybe casts_by"
    )
    add_device(parser, required=True)
    parser.add_argument(
        "--clock",
        choices=("settled", "burst"),
        default="settled",
        help="settled: seconds under load; burst: a few milliseconds from a cool start",
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="the errors, for programs")
    parser.add_argument("--out", type=Path, help="write every product with its prediction here")
    parser.set_defaults(run=_judge)


def _judge(options: argparse.Namespace) -> None:
    """Print the page of errors, and write the products where asked to."""
    from roofcal.ask.outside import hold_against
    from roofcal.ask.sources import device_sources
    from roofcal.core.paths import RunFolder
    from roofcal.models.registry import model_named

    sources, folder = device_sources(options.device, options.environment, options.model)
    run = RunFolder.at(folder) if sources.calibration else None
    model = model_named(options.model)
    evidence = hold_against(options.table, model, sources, run, clock=options.clock)
    if not evidence.products:
        raise ValueError(f"{options.table}: no answer: {'; '.join(evidence.unanswered)}")
    if options.out:
        show(evidence.products_csv(), as_json=False, out=options.out)
    show(evidence, as_json=options.json)
