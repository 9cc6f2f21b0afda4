"""The command line: `python -m roofcal doctor | plan | measure | calibrate | predict | ...`.

Each command calls one function of its stage and imports it only then, so that --help and predict
stay fast. A mistake of the user ends in one message and exit code 2, never in a traceback.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from roofcal.cli import breakeven, comparisons, exports, llm, predict, publications, stages

COMMANDS: Final = {
    "doctor": stages.add_doctor,
    "plan": stages.add_plan,
    "measure": stages.add_measure,
    "calibrate": stages.add_calibrate,
    "learning": stages.add_learning,
    "predict": predict.add_predict,
    "breakeven": breakeven.add_breakeven,
    "llm": llm.add_llm,
    "export": exports.add_export,
    "table": exports.add_table,
    "report": stages.add_report,
    "compare": comparisons.add_compare,
    "claims": comparisons.add_claims,
    "publish": publications.add_publish,
    "verify": publications.add_verify,
}
INTERRUPTED: Final = 130  # 128 + SIGINT
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE: what a shell says of `yes | head -1`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 after a mistake that its message explains.

    A command may give an exit code of its own: `compare` gives 1 for a regression.
    """
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can still be told from a mistake
    except BrokenPipeError:
        # Whoever reads has seen enough, as in `roofcal table ... | head -1`. Python would complain
        # once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    try:
        code = options.run(options)
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "stopped; what was measured is kept, and the next run goes on from there",
            file=sys.stderr,
        )
        return INTERRUPTED
    return int(code or 0)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m roofcal", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in COMMANDS.values():
        add(commands)
    return parser
