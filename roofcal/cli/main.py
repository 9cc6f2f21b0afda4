"""The command line: `python -m roofcal doctor | plan | measure | calibrate | predict | ...`.

Each command calls one function of its stage and imports it only then, so that --help and predict
stay fast. A mistake of the user ends in one message and exit code 2, never in a traceback.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import roofcal
from roofcal.cli import (
    advise,
    breakeven,
    comparisons,
    devices,
    exports,
    health,
    judge,
    llm,
    predict,
    publications,
    stages,
)
from roofcal.cli.arguments import named_device
from roofcal.cli.completion import PrintCompletion
from roofcal.cli.parser import Parser
from roofcal.core.names import printable
from roofcal.core.paths import BUNDLED, CHECKOUT
from roofcal.models.errors import CalibrationWarning

GROUPS: Final = {
    "ask, from what is calibrated": {
        "advise": advise.add_advise,
        "predict": predict.add_predict,
        "breakeven": breakeven.add_breakeven,
        "llm": llm.add_llm,
        "devices": devices.add_devices,
        "judge": judge.add_judge,
        "compare": comparisons.add_compare,
        "claims": comparisons.add_claims,
        "table": exports.add_table,
        "export": exports.add_export,
    },
    "study this machine, in a checkout": {
        "doctor": stages.add_doctor,
        "plan": stages.add_plan,
        "measure": stages.add_measure,
        "join": stages.add_join,
        "calibrate": stages.add_calibrate,
        "learning": stages.add_learning,
        "report": stages.add_report,
        "health": health.add_health,
        "fleet": health.add_fleet,
    },
    "publish, in a checkout": {
        "publish": publications.add_publish,
        "verify": publications.add_verify,
        "site": publications.add_site,
    },
}
COMMANDS: Final = {name: add for group in GROUPS.values() for name, add in group.items()}
# Module -> the extra of pyproject.toml that brings it; all others come with roofcal itself.
_EXTRAS: Final = {
    **dict.fromkeys(("torch", "triton", "snakemake", "pynvml", "tqdm"), "measure"),
    **dict.fromkeys(("matplotlib", "seaborn", "altair", "vl_convert"), "report"),
    "sympy": "symbolic",
}
_VERSION: Final = f"roofcal {roofcal.__version__}"
INTERRUPTED: Final = 130  # 128 + SIGINT
CRASHED: Final = 70  # EX_SOFTWARE of sysexits.h
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE: what a shell says of `yes | head -1`


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0, or 2 after a mistake that its message explains.

    A command may give an exit code of its own: `compare` and `health` give 1 for a bad verdict. A
    fault of roofcal ends in its traceback and CRASHED, because Python's 1 would be such a verdict.
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
    except Exception:  # noqa: BLE001 (whatever it is, its traceback is printed)
        traceback.print_exc()
        return CRASHED


def _run(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if list(words) == ["--version"]:  # a third of the time: no options of ops
        print(_VERSION)
        return 0
    options = command_parser().parse_args(words)
    try:
        if getattr(options, "device", None):
            options.device = named_device(options.device)
        with _warnings_in_one_line():
            code = options.run(options)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        print(f"error: {_missing_module(str(error.name), options.command)}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"error: {printable(_message(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "stopped; what was measured is kept, and the next run goes on from there",
            file=sys.stderr,
        )
        return INTERRUPTED
    return int(code or 0)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Shows what answers warn of as notes and mistakes are shown; others as Python does."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_in_one_line(message: Any, category: Any, *place: Any, **rest: Any) -> None:
            if category is CalibrationWarning:
                print(f"warning: {message}", file=sys.stderr)
            else:
                show(message, category, *place, **rest)

        warnings.showwarning = show_in_one_line
        warnings.simplefilter("always", CalibrationWarning)
        yield


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _missing_module(name: str, command: str) -> str:
    module = name.partition(".")[0]
    is_answer = command in next(iter(GROUPS.values()))
    is_wheel = BUNDLED.is_dir()
    if module in ("roofcal", "kernels") or (is_wheel and not is_answer):
        return "this command runs in a clone of the repository, whose kernels no package carries"
    extra = f"[{_EXTRAS[module]}]" if module in _EXTRAS else ""
    clone = "a clone of the repository" if is_wheel else str(CHECKOUT)
    where = "" if Path.cwd() == CHECKOUT else f" in {clone}"
    return f"this needs the module {module}: pip install '.{extra}'{where}"


def command_parser() -> Parser:
    """The parser of all commands."""
    prog = "roofcal" if Path(sys.argv[0]).name == "roofcal" else "python -m roofcal"
    parser = Parser(
        prog=prog,
        description=roofcal.__doc__.partition("\n")[0],
        epilog=f"`{prog} COMMAND --help` lists the options of a command.",
        groups={heading: tuple(group) for heading, group in GROUPS.items()},
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=("bash", "zsh", "tcsh"),
        help="print the script that completes commands, options, devices and recipes in a shell",
    )
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", dest="command", parser_class=Parser
    )
    for add in COMMANDS.values():
        add(commands)
    return parser
