"""`predict --symbolic`: torchao's formulas as expressions in M, K, N."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any, Final

from roofcal.cli.arguments import write_or_print

if TYPE_CHECKING:
    from roofcal.models.torchao.constants import Constants

READ: Final = ("symbolic", "linear", "inference", "role", "fused", "constants")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare --symbolic and what goes with it."""
    group = parser.add_argument_group("torchao's formulas as expressions, with --model torchao")
    group.add_argument(
        "--symbolic", action="store_true", help="print seconds as an expression in M, K, N"
    )
    group.add_argument(
        "--linear", action="store_true", help="forward + backward with casts, not one product"
    )
    group.add_argument(
        "--inference", action="store_true", help="the activation's cast and one product"
    )
    group.add_argument("--role", help="the cast of this tensor alone: input, weight, grad_output")
    group.add_argument(
        "--fused", action="store_true", help="the op before hands activations over in registers"
    )
    group.add_argument(
        "--constants",
        help="torchao-2025, torchao-0.18.0 or datasheet; default: the first that has the device",
    )


def check_options(options: argparse.Namespace) -> None:
    """Raises ValueError for options that do not go together."""
    if options.model != "torchao":
        raise ValueError(f"model {options.model} has no expression: use --model torchao")
    parts = [name for name in ("linear", "inference", "role") if getattr(options, name)]
    if len(parts) > 1:
        raise ValueError(f"give one of --linear, --inference and --role, not --{parts[1]} too")
    if options.fused and parts not in (["linear"], ["role"]):
        raise ValueError("--fused needs --linear or --role: nothing else has a cast to fuse")


def print_expression(options: argparse.Namespace) -> None:
    """Print the expression and, where all sizes are given, its value in seconds."""
    from roofcal.ask.sources import datasheet
    from roofcal.models.torchao.constants import choose_constants
    from roofcal.models.torchao.symbolic import evaluate

    sizes = _sizes(options)
    spec = datasheet(options.device)
    constants = choose_constants(options.device, options.constants, spec)
    expression = _expression(options, constants)
    seconds = evaluate(expression, *sizes) if sizes else None
    if options.json:
        axes = dict(zip("mkn", sizes or (None, None, None), strict=True))
        answer = {"expression": str(expression), **axes, "seconds": seconds}
        text = json.dumps(answer | {"constants": constants.name, "device": constants.device}) + "\n"
    else:
        text = f"{expression}\n"
        if sizes:
            m, k, n = sizes
            text += f"{seconds:.6g} s at M={m}, K={k}, N={n}\n"
    write_or_print(text, options.out)
    print(f"from: constants {constants.name} of {constants.device}", file=sys.stderr)


def _expression(options: argparse.Namespace, constants: "Constants") -> Any:
    """The sympy expression that is asked for; sympy has no types."""
    from roofcal.models.torchao import symbolic

    if options.linear:
        return symbolic.linear_expression(constants, options.recipe, options.fused)
    if options.inference:
        return symbolic.inference_expression(constants, options.recipe)
    if options.role:
        return symbolic.cast_expression(constants, options.recipe, options.role, options.fused)
    return symbolic.product_expression(constants, options.recipe)


def _sizes(options: argparse.Namespace) -> tuple[int, int, int] | None:
    """(M, K, N) where they are given; raises ValueError where only some are."""
    size_by_axis = {axis: getattr(options, axis) for axis in "mkn"}
    missing = [f"--{axis}" for axis, size in size_by_axis.items() if size is None]
    if not missing:
        return size_by_axis["m"], size_by_axis["k"], size_by_axis["n"]
    if len(missing) < len(size_by_axis):
        raise ValueError(f"a value of the expression needs {' '.join(missing)} too")
    return None
