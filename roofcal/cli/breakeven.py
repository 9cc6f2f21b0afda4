"""`breakeven`: from which M on a narrow linear, casts included, is faster than bf16; its map."""

import argparse

from roofcal.cli.arguments import (
    MAP_OF_RUN,
    Commands,
    add_device,
    add_map_of_run,
    add_model,
    add_passes_and_weights,
    add_sizes,
    calibration_file,
    check_mode,
    checked_folder,
    fill_axes,
    refuse_given,
    require,
    show,
    whole_number,
    write_or_print,
)


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
    from roofcal import api

    fill_axes(options, "nk")
    require(options, "breakeven", "device", "recipe", "k", "n")
    answer = api.breakeven(
        options.device,
        options.recipe,
        n=options.n,
        k=options.k,
        passes=options.passes,
        weights=options.weights,
        casts=options.casts,
        model=options.model,
        environment=options.environment,
    )
    show(answer, as_json=options.json)
