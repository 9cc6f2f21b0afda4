"""`advise`: which recipe, and whose kernels, for a linear or a CSV of them."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import (
    PRICES,
    Commands,
    add_device,
    add_model,
    add_passes_and_weights,
    add_prices,
    add_sizes,
    asked_prices,
    asked_sources,
    check_mode,
    csv_as_json,
    fill_axes,
    require,
    whole_number,
    write_or_print,
)

if TYPE_CHECKING:
    from roofcal.ask.energy import TokenCost


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
    from roofcal.ask.advice_text import (
        advise_csv,
        advise_point,
        as_dict,
        as_text,
        cost_by_recipe,
        costs_text,
        measured_evidence,
    )
    from roofcal.ask.advise import Adviser, LinearQuestion
    from roofcal.core.paths import RunFolder
    from roofcal.models.registry import model_named
    from roofcal.ops.linear.model import usual_weights

    asked = ("device", "environment", "passes", "weights", "model", "json")
    one_linear = (*asked, *PRICES, "sizes", *"mnk")
    check_mode(options, {"--shapes": (*asked, "shapes", "out"), "": one_linear})
    fill_axes(options, "mnk")
    require(options, "advise", "device", *(() if options.shapes else ("m", "n", "k")))
    sources, folder = asked_sources(options, options.model)
    run = RunFolder.at(folder) if sources.calibration else None
    weights = options.weights or usual_weights(options.passes)
    evidence = measured_evidence(run)
    adviser = Adviser(model_named(options.model), sources, evidence.by_key)
    prices = asked_prices(options)
    if options.shapes:
        text = advise_csv(options.shapes, adviser, options.passes, weights, evidence)
        write_or_print(csv_as_json(text) if options.json else text, options.out)
        print(f"from: {folder}", file=sys.stderr)
        return
    question = LinearQuestion(
        m=options.m, n=options.n, k=options.k, passes=options.passes, weights=weights
    )
    advice, winners = advise_point(adviser, question)
    environment = sources.calibration.environment_id if sources.calibration else None
    origin = {"model": options.model, "device": options.device, "environment": environment}
    costs: dict[str, TokenCost] = {}
    if prices:
        costs = cost_by_recipe(advice, sources, prices, options.model)
    if options.json:
        energy = {"energy": {name: cost.record() for name, cost in costs.items()}} if costs else {}
        print(json.dumps(as_dict(advice, evidence, winners, origin) | energy))
        return
    print(as_text(advice, evidence, winners, origin))
    if costs:
        print(costs_text(costs))
