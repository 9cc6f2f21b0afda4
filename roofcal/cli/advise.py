"""`advise`: which recipe, and whose kernels, for a linear or a CSV of them."""

import argparse
import sys
from pathlib import Path

from roofcal.cli.arguments import (
    PRICES,
    Commands,
    add_device,
    add_model,
    add_passes_and_weights,
    add_prices,
    add_sizes,
    check_mode,
    fill_axes,
    require,
    show,
    whole_number,
)


def add_advise(commands: Commands) -> None:
    """Declare `advise` and its arguments."""
    parser = commands.add_parser("advise", help="which recipe, and whose kernels, for a linear")
    add_device(parser)
    add_sizes(parser, "MxNxK")
    parser.add_argument("--m", type=whole_number, help="tokens: rows of x")
    parser.add_argument("--n", type=whole_number, help="rows of w")
    parser.add_argument("--k", type=whole_number, help="columns of x and w")
    parser.add_argument("--shapes", type=Path, metavar="CSV", help="columns m,n,k: many linears")
    add_passes_and_weights(parser)
    add_model(parser)
    add_prices(parser)
    parser.add_argument("--json", action="store_true", help="SI units, every option, for programs")
    parser.add_argument("--out", type=Path, help="with --shapes: write here")
    parser.set_defaults(run=_advise)


def _advise(options: argparse.Namespace) -> None:
    """Print the advice on one linear, or write the table of many."""
    asked = ("device", "environment", "passes", "weights", "model", "json")
    one_linear = (*asked, *PRICES, "sizes", *"mnk")
    check_mode(options, {"--shapes": (*asked, "shapes", "out"), "": one_linear})
    fill_axes(options, "mnk")
    require(options, "advise", "device", *(() if options.shapes else ("m", "n", "k")))
    if options.shapes:
        _many(options)
        return
    from roofcal import api

    answer = api.advise(
        options.device,
        m=options.m,
        n=options.n,
        k=options.k,
        passes=options.passes,
        weights=options.weights,
        model=options.model,
        environment=options.environment,
        energy=options.energy,
        price_per_kwh=options.price_per_kwh,
        price_per_hour=options.price_per_hour,
    )
    show(answer, as_json=options.json)


def _many(options: argparse.Namespace) -> None:
    from roofcal.ask.advice_text import advise_csv, measured_evidence
    from roofcal.ask.advise import Adviser
    from roofcal.ask.sources import device_sources
    from roofcal.core.paths import RunFolder
    from roofcal.models.registry import model_named
    from roofcal.ops.linear.model import usual_weights

    sources, folder = device_sources(options.device, options.environment, options.model)
    evidence = measured_evidence(RunFolder.at(folder) if sources.calibration else None)
    adviser = Adviser(model_named(options.model), sources, evidence.by_key)
    weights = options.weights or usual_weights(options.passes)
    answer = advise_csv(options.shapes, adviser, options.passes, weights, evidence)
    show(answer, as_json=options.json, out=options.out)
    print(f"from: {folder}", file=sys.stderr)
