"""The command line: `roofcal doctor | plan | measure | calibrate | predict | ...`.

The module of a command is imported only when it is asked for, so that --help and predict stay fast.
A mistake of the user ends in one message and exit code 2, never in a traceback.
"""

import argparse
import gc
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import shtab

import roofcal
from roofcal.core.names import did_you_mean, did_you_mean_or_all, printable
from roofcal.core.paths import BUNDLED, CHECKOUT
from roofcal.models.errors import CalibrationWarning

if TYPE_CHECKING:
    from roofcal.cli.commands import Command

# Heading of --help -> command -> (its module in roofcal.cli, what it is for).
GROUPS: Final = {
    "ask, from what is calibrated": {
        "advise": ("questions", "which recipe, and whose kernels, for a linear"),
        "predict": ("questions", "predicted time of a point, of the points of a CSV, or of a run"),
        "breakeven": (
            "questions",
            "smallest M from which a linear in fp8, casts included, is faster than in bf16",
        ),
        "llm": ("questions", "prefill and decode of a language model"),
        "devices": ("questions", "devices that can be asked about, and what was measured on them"),
        "judge": (
            "questions",
            "errors of a model on products that somebody else measured, by regime",
        ),
        "compare": (
            "records",
            "what moved from run A to run B; exit code 1 where B is slower or broken",
        ),
        "claims": ("records", "whether published claims hold on these records"),
        "table": ("records", "the tidy frame of an op, one row per point"),
        "export": ("records", "calibrated constants for other tools"),
    },
    "study this machine, in a checkout": {
        "doctor": ("stages", "what is here, and what a study here can do"),
        "plan": ("stages", "the points of a study: a summary, or one op's file"),
        "compile": ("stages", "compile the kernels of a plan for a GPU, before it is measured"),
        "measure": ("stages", "measure a plan; goes on where it was interrupted"),
        "join": ("stages", "join what jobs of `measure --world-sizes` measured into one file"),
        "calibrate": ("stages", "fit the constants of a run on its probes"),
        "learning": (
            "stages",
            "error of predictions by the number of probes they were fitted on, as CSV",
        ),
        "report": ("stages", "the HTML page of one or more runs"),
        "time": ("health", "measure products of any sizes here, beside their predictions"),
        "health": (
            "health",
            "whether this card is slower than its kind or fails; exit code 0 no, 1 yes, 2 unknown",
        ),
        "fleet": ("health", "which cards of a cluster are slow, worst first"),
    },
    "publish, in a checkout": {
        "publish": ("stages", "freeze a finished run under reports/published"),
        "verify": (
            "stages",
            "make publications again from their records and compare; needs no GPU",
        ),
        "site": ("stages", "write the pages over all publications"),
    },
}
COMMANDS: Final = {name: about for group in GROUPS.values() for name, about in group.items()}
# Module -> the extra of pyproject.toml that brings it; all others come with roofcal itself.
_EXTRAS: Final = {
    **dict.fromkeys(("torch", "triton", "snakemake", "pynvml", "tqdm"), "measure"),
    "vl_convert": "report",
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
    # Commands make many small objects and few reference cycles, which Python collects after every
    # 700 new objects: the language models of an H200 5.5 -> 4.4 CPU s, its report 15.1 -> 13.9.
    gc.set_threshold(20_000)
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
    if list(words[:1]) == ["--print-completion"]:
        parser = command_parser(COMMANDS)
        _offer_names(parser)
    else:
        parser = command_parser([word for word in words if word in COMMANDS][:1])
    given = vars(parser.parse_args(words))
    command, spelling = given.pop("command"), given.pop("spelling")
    given.pop("print_completion")
    try:
        with _warnings_in_one_line():
            code = command_named(command).run(command, given, spelling)
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        _complain(_missing_module(str(error.name), command))
        return 2
    except (ValueError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError) and error.filename:
            message = f"{error.filename}: {error.strerror}"
        _complain(printable(message))
        return 2
    except KeyboardInterrupt:
        print("stopped; what was measured is kept, and a study goes on from there", file=sys.stderr)
        return INTERRUPTED
    return int(code or 0)


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Shows what answers warn of as notes and mistakes are shown; others as Python does."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_in_one_line(message: Any, category: Any, *place: Any, **rest: Any) -> None:
            if category is CalibrationWarning:
                _complain(str(message), "warning")
            else:
                show(message, category, *place, **rest)

        warnings.showwarning = show_in_one_line
        warnings.simplefilter("always", CalibrationWarning)
        yield


def _complain(text: str, what: str = "error") -> None:
    from roofcal.cli.commands import remark_on_stderr  # which --help and --version do not need

    remark_on_stderr(f"{what}: {text}")


def _missing_module(name: str, command: str) -> str:
    module = name.partition(".")[0]
    is_answer = command in next(iter(GROUPS.values()))
    is_wheel = BUNDLED.is_dir()
    if module in ("roofcal", "kernels") or (is_wheel and not is_answer):
        return (
            "this command runs the code of a clone of the repository, whose kernels no package "
            "carries: `pip install -e .` in a clone"
        )
    extra = f"[{_EXTRAS[module]}]" if module in _EXTRAS else ""
    clone = "a clone of the repository" if is_wheel else str(CHECKOUT)
    where = "" if Path.cwd() == CHECKOUT else f" in {clone}"
    return f"this needs the module {module}: pip install '.{extra}'{where}"


def command_named(name: str) -> "Command":
    """A command, whose module is imported now: the one with its name in capitals, or a function."""
    from roofcal.cli.commands import Command

    module = import_module(f"roofcal.cli.{COMMANDS[name][0]}")
    command: Command = getattr(module, name.upper(), None) or Command({"": getattr(module, name)})
    return command


def command_parser(names: Collection[str] = tuple(COMMANDS)) -> "Parser":
    """The parser of all commands; arguments, which import modules, have those of `names` alone."""
    parser = Parser(
        prog="roofcal",  # however it was started
        description=roofcal.__doc__.partition("\n")[0],
        epilog="`roofcal COMMAND --help` lists the options of a command.",
        groups={heading: tuple(group) for heading, group in GROUPS.items()},
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    shtab.add_argument_to(
        parser,
        help="print the script that completes commands, options, devices and recipes in a shell",
    )
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", dest="command", parser_class=Parser
    )
    for name, (_, text) in COMMANDS.items():
        own = commands.add_parser(name, help=text)
        if name in names:
            command_named(name).declare(own)
    return parser


def _offer_names(parser: "Parser") -> None:
    """Let shells complete names and files too, which are no choices: people may shorten names."""
    from roofcal.ask.devices import device_ids
    from roofcal.core.recipes import GEMM_RECIPES
    from roofcal.ops import BY_NAME

    names: dict[str, Any] = {"device": device_ids(), "op": BY_NAME, "recipe": GEMM_RECIPES}
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    for action in (action for command in commands.choices.values() for action in command._actions):
        action.choices = action.choices or names.get(action.dest)
        if action.type is Path:
            action.complete = shtab.FILE


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that answers a mistake by one line and exit code 2, and lists groups.

    groups: heading of --help -> names of the commands below it, for a parser with commands.

    The namespace of a command has the arguments that were given, and `spelling`: name of each of
    them -> how a person writes it.
    """

    def __init__(
        self, *args: Any, groups: Mapping[str, Sequence[str]] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._groups = groups or {}

    def error(self, message: str) -> NoReturn:
        """Print one line, without the usage, which --help prints; exit code 2."""
        _complain(f"{message} (`{self.prog} --help` lists what there is)")
        self.exit(2)

    def _get_formatter(self) -> argparse.HelpFormatter:
        from roofcal.ask.answers import WIDTH

        columns = min(shutil.get_terminal_size().columns, WIDTH)
        return argparse.HelpFormatter(self.prog, width=columns - 2)

    def format_help(self) -> str:
        """The help text, with the commands below the headings of their groups."""
        if not self._groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        (commands,) = (a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        by_name = {action.dest: action for action in commands._get_subactions()}
        for heading, names in self._groups.items():
            formatter.start_section(heading)
            formatter.add_arguments([by_name[name] for name in names])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action is not commands])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def parse_known_args(  # type: ignore[override]  # argparse has overloads for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse, but no word is left over: a command knows its own options best."""
        words = list(sys.argv[1:] if args is None else args)
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                break
            self._check_option(word.partition("=")[0])
        found, extras = super().parse_known_args(words, namespace)
        if extras:
            together = [action for action in self._actions if action.nargs == "*"]
            forms = [f"; {one.metavar} stand together: {one.help}" for one in together]
            self.error(f"does not take {' '.join(extras)[:80]!r}{''.join(forms)}")
        if self._subparsers is None:
            found.spelling = {
                action.dest: action.option_strings[-1] if action.option_strings else action.metavar
                for action in self._actions
            }
        return found, extras

    def _check_option(self, option: str) -> None:
        """Refuse an option that no option of this parser starts with."""
        options = self._option_string_actions
        if option.startswith("--") and not any(name.startswith(option) for name in options):
            long_names = [name for name in options if name.startswith("--")]
            hint = did_you_mean(option, long_names)
            if option == "--model" and "--by" in options:  # its name until 0.4.0
                hint = "; --by names the model of time"
            self.error(f"unknown option {option[:40]}{hint}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is none of the choices, with the nearest of them."""
        if action.choices is not None and value not in action.choices:
            nearest = did_you_mean_or_all(str(value), map(str, action.choices))
            is_command = isinstance(action, argparse._SubParsersAction)
            what = f"unknown command '{value}'" if is_command else f"'{value}'"
            raise argparse.ArgumentError(None if is_command else action, f"{what}{nearest}")
