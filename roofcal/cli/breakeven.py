"""`breakeven`: from which M on a narrow linear, casts included, is faster than bf16; its map."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from roofcal.cli.arguments import (
    MAP_OF_RUN,
    Commands,
    add_device,
    add_map_of_run,
    add_model,
    add_passes_and_weights,
    add_sizes,
    asked_sources,
    calibration_file,
    check_mode,
    checked_folder,
    fill_axes,
    refuse_given,
    require,
    whole_number,
    write_or_print,
)

if TYPE_CHECKING:
    from roofcal.ask.breakeven import Breakeven
    from roofcal.ops.linear.model import Linear


def add_breakeven(commands: Commands) -> None:
    """Declare `breakeven` and its arguments."""
    text = "smallest M from which a linear in fp8, casts included, is faster than in bf16"
    parser = commands.add_parser("breakeven", help=text)
    add_device(parser)
    add_sizes(parser, "NxK")
    parser.add_argument("--recipe", help="e.g. fp8_axiswise")
    parser.add_argument("--k", type=whole_number, help="columns of x and w")
    parser.add_argument("--n", type=whole_number, help="rows of w")
    add_passes_and_weights(parser)
    parser.add_argument(
        "--casts",
        choices=("fastest", "none", "torch_compile", "torch_eager", "triton"),
        default="fastest",
        help="who casts: by default whoever is fastest at each M, as advise; none: products alone",
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    add_map_of_run(parser, "the map")
    parser.set_defaults(run=_breakeven)


def _breakeven(options: argparse.Namespace) -> None:
    """Print the break-even of one linear, or write the map of a run folder."""
    linear = ("device", "environment", "sizes", "recipe", *"nk", "passes", "weights", "casts")
    check_mode(options, {"--run": MAP_OF_RUN, "": (*linear, "model", "json")})
    if options.casts == "none":
        refuse_given(options, ("weights",), "--casts none")
    if options.folder:
        from roofcal.ask.breakeven_map import run_map

        write_or_print(run_map(checked_folder(options), calibration_file(options)), options.out)
        return
    _one_linear(options)


def _one_linear(options: argparse.Namespace) -> None:
    from roofcal.ask.breakeven import breakeven
    from roofcal.ask.names import recipe_named
    from roofcal.models.errors import PredictError
    from roofcal.models.registry import model_named
    from roofcal.ops.linear.model import Linear, usual_weights

    fill_axes(options, "nk")
    require(options, "breakeven", "device", "recipe", "k", "n")
    model = model_named(options.model)
    sources, place = asked_sources(options, options.model)
    if sources.calibration is None and sources.spec is None:
        raise PredictError(f"model '{options.model}' needs a datasheet, and there is no {place}")
    linear = Linear(
        recipe=recipe_named(options.recipe, model.product_recipes(sources)),
        passes=options.passes,
        casts=options.casts,
        weights=options.weights or usual_weights(options.passes),
    )
    break_even = breakeven(model, sources, linear, options.n, options.k)
    environment = sources.calibration.environment_id if sources.calibration else None
    origin = {"model": options.model, "device": options.device, "environment": environment}
    answer = origin | {"n": options.n, "k": options.k} | as_dict(linear, break_even)
    print(json.dumps(answer) if options.json else sentences(answer))


def as_dict(linear: "Linear", break_even: "Breakeven") -> dict[str, Any]:
    """A break-even as JSON values. m, m_low, m_high: None for never up to largest_m.

    products_by, casts_by: who is timed at m, or at best_m where that is None.
    """
    from roofcal.ask.breakeven import GRID, LARGEST_M
    from roofcal.ask.linear_options import BASELINE

    ratios = break_even.speedups
    best = ratios.best
    low, high = (None if end is None else float(end[best]) for end in (ratios.low, ratios.high))
    place = best if break_even.m is None else int(GRID.searchsorted(break_even.m))
    (own, _), (best_own, _) = ratios.by[place], ratios.by[best]
    return {
        "recipe": linear.recipe,
        "baseline": BASELINE,
        "pass": linear.passes,
        "casts": linear.casts,
        "weights": None if linear.casts == "none" else linear.weights,
        "m": break_even.m,
        "m_low": break_even.m_low,
        "m_high": break_even.m_high,
        "largest_m": LARGEST_M,
        "best_m": int(GRID[best]),
        "best_speedup": float(ratios.value[best]),
        "best_speedup_low": low,
        "best_speedup_high": high,
        "products_by": own.products_by,
        "casts_by": own.casts_by,
        "best_products_by": best_own.products_by,
        "best_casts_by": best_own.casts_by,
        **_reservations(break_even),
    }


def _reservations(break_even: "Breakeven") -> dict[str, Any]:
    """How far the answer lies beyond the probes; None where nobody knows.

    probed_m: the smallest and the largest M whose products and casts all lie within the probes.
    """
    from roofcal.ask.breakeven import GRID

    speedups = break_even.speedups
    ends = {"m": break_even.m, "m_low": break_even.m_low, "m_high": break_even.m_high}
    places = {name: int(GRID.searchsorted(m)) for name, m in ends.items() if m is not None}
    places["best"] = speedups.best
    if speedups.beyond is None or speedups.doublings is None:
        doublings, probed, unprobed = dict.fromkeys(places), None, None
    else:
        doublings = {name: float(speedups.doublings[place]) for name, place in places.items()}
        within = GRID[speedups.doublings == 0]
        probed = [int(within[0]), int(within[-1])] if len(within) else None
        unprobed = bool(speedups.beyond.is_unprobed[places.get("m", places["best"])])
    return {
        "extrapolated": None if unprobed is None else any(doublings.values()),
        "extrapolated_doublings": doublings.get("m"),
        "m_low_extrapolated_doublings": doublings.get("m_low"),
        "m_high_extrapolated_doublings": doublings.get("m_high"),
        "best_extrapolated_doublings": doublings["best"],
        "probed_m": probed,
        "unprobed": unprobed,
    }


def sentences(answer: dict[str, Any]) -> str:
    """A break-even for a person, five lines and what makes it less sure."""
    n, k = answer["n"], answer["k"]
    passes = answer["pass"].replace("_", " and ")
    whose = "whoever is fastest" if answer["casts"] == "fastest" else answer["casts"]
    casts = f"casts by {whose}, weights {_WEIGHTS.get(answer['weights'])}"
    low, high = answer["best_speedup_low"], answer["best_speedup_high"]
    span = f" (95 %: {low:.2f}x to {high:.2f}x)" if low is not None else ""
    described = "its wave description" if answer["model"] == "wave" else "its datasheet"
    lines = (
        f"{_verdict(answer)}\n"
        f"{passes} of y[M,{n}] = x[M,{k}] @ w[{n},{k}].T, "
        f"{'no casts' if answer['casts'] == 'none' else casts}\n"
        f"at best {answer['best_speedup']:.2f}x{span}, at M = {answer['best_m']}\n"
        f"{_whose(answer)}\n"
        f"model {answer['model']}, {answer['device']}, {answer['environment'] or described}"
    )
    return "\n".join([lines, *_reservation_lines(answer)])


def _whose(answer: dict[str, Any]) -> str:
    """Whose products and casts are timed; others may be at other M."""
    if answer["products_by"] == "any":
        return "products and casts by any provider: this model knows none"
    at = {answer["best_m"]: (answer["best_products_by"], answer["best_casts_by"])}
    if answer["m"] is not None:
        at = {answer["m"]: (answer["products_by"], answer["casts_by"])} | at
    listed = "; ".join(
        f"{products}{'' if casts == 'none' else f', casts by {casts}'} (M = {m})"
        for m, (products, casts) in at.items()
    )
    as_advise = ", as advise predicts" if answer["casts"] == "fastest" else ""
    return f"products by whoever is fastest at each M{as_advise}: {listed}"


def _reservation_lines(answer: dict[str, Any]) -> Iterator[str]:
    """What makes the answer less sure than its intervals say."""
    from roofcal.ask.beyond_probes import FAR

    names = {"m": "", "m_low": "m_low_", "m_high": "m_high_", "best_m": "best_"}
    at = {answer[m]: answer[f"{name}extrapolated_doublings"] for m, name in names.items()}
    outside = {m: doublings for m, doublings in at.items() if doublings}
    probed = answer["probed_m"]
    within = f"M from {probed[0]} to {probed[1]} is within" if probed else "no M is within"
    if probed and not outside and answer["m"] is not None and probed[1] < answer["largest_m"]:
        yield f"{within} the probes; what lies beyond is not counted"
    if outside:
        places = ", ".join(f"{doublings:.1f} at M = {m}" for m, doublings in outside.items())
        guess = ", so far outside a guess" if max(outside.values()) > FAR else ""
        yield (
            f"extrapolated: doublings beyond every probe: {places} ({within}); intervals are "
            f"wider there{guess}"
        )
    if answer["unprobed"]:
        yield "no probe is like a product or a cast in it: its interval is a guess"


_WEIGHTS = {"cached": "cast beforehand", "cast": "cast each time"}


def _verdict(answer: dict[str, Any]) -> str:
    m, low, high, most = (answer[key] for key in ("m", "m_low", "m_high", "largest_m"))
    pair = f"{answer['recipe']} is faster than {answer['baseline']}"
    if m is None:
        never = (
            f"{answer['recipe']} is at no M up to {most} faster than {answer['baseline']} "
            "from there on"
        )
        return f"{never} (95 %: perhaps from M = {low} on)" if low else never
    if answer["best_speedup_low"] is None:
        return f"{pair} from M = {m} on (no interval: this model states none)"
    return f"{pair} from M = {m} on (95 %: {low} to {high or f'beyond {most}'})"
