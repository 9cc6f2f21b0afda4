"""The command line: `python -m roofcal doctor | plan | measure | calibrate | predict | ...`.

Each command is a file of roofcal/cli and calls one function of its stage, imported only then,
so that --help and predict stay fast. A mistake of the user ends in one message and exit code 2,
never in a traceback.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from roofcal.cli import (
    breakeven,
    calibrate,
    claims,
    compare,
    doctor,
    export,
    learning,
    llm,
    measure,
    plan,
    predict,
    publish,
    report,
    table,
    verify,
)

COMMANDS: Final = (
    doctor,
    plan,
    measure,
    calibrate,
    learning,
    predict,
    breakeven,
    llm,
    export,
    table,
    report,
    compare,
    claims,
    publish,
    verify,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 after a mistake that its message explains.

    A command may give an exit code of its own: `compare` gives 1 for a regression.
    """
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
    except (ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "stopped; what was measured is kept, and the next run goes on from there",
            file=sys.stderr,
        )
        return 130
    return int(code or 0)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m roofcal", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    return parser
