"""Commands are read from signatures: what a function takes is what its command takes.

A command has modes: the option that chooses one, as `--run`, or "" -> the function that answers.
Its parameters are the arguments that the mode reads, and any other that is given is refused.

    a: str, /                an argument without an option; *names: Path for several
    n: int                   --n, which is needed
    out: Path | None = None  --out
    also: tuple[Path, ...]   --also FILE FILE; with list[Path] the option is given several times
    clock: Literal[...]      one of these words
    json: bool = False       a flag

What an argument means stands below `Args:` of the docstring, as `name (METAVAR): text`, or in
_COMMON, where several commands have it.
"""

import argparse
import inspect
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from roofcal.ask.answers import WIDTH, Answer, wrapped
from roofcal.core.csv_files import LARGEST_SIZE, is_size
from roofcal.core.files import check_folder, parse_json, write_bytes

# what a person may give for an option that is missing
_EXAMPLES: Final = {"--device": "h200", "--recipe": "fp8_axiswise", "--model": "llama3-70b"}
_COMMON: Final = """Args:
    by: the model of time: calibrated (default), wave, torchao or datasheet; all but the first
        answer for cards that nobody measured
    calibration: with --run: the calibration to use
    device: e.g. h200; `devices` lists them
    energy: joules per token: board power by NVML, not the wall
    environment: environment id; default: the latest calibration
    json: SI units, for programs
    k: columns of x and w
    m: tokens: rows of x
    n: rows of w
    out: write here, default: the terminal
    passes: forward: inference (default); forward_backward: a training step
    price_per_hour: dollars per hour of one GPU, for dollars per token
    price_per_kwh: dollars per kWh of the boards, for dollars per token
    run (FOLDER): run folder
    weights: cached: cast beforehand (default forward); cast: each time (default with backward)
"""


def whole_number(text: str) -> int:
    """A size from the command line; raises ArgumentTypeError unless it is from 1 to 2^30."""
    if not is_size(text):
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a whole number from 1 to {LARGEST_SIZE}"
        )
    return int(text)


def sizes_text(text: str) -> tuple[int, ...]:
    """Sizes of one word, as 4096x4096x4096 or 4096; raises ArgumentTypeError for anything else."""
    parts = re.split(r"[x*,\N{MULTIPLICATION SIGN}]", text.lower())
    try:
        return tuple(whole_number(part.strip()) for part in parts)
    except argparse.ArgumentTypeError as error:
        form = "sizes are written as 4096x28672 or as 4096 28672"
        raise argparse.ArgumentTypeError(f"{error}; {form}") from None


def refuse(options: Sequence[str], mode: str) -> None:
    """Raises ValueError naming options that were given and do not go with `mode`."""
    if options:
        verb = "do" if options[1:] else "does"
        raise ValueError(f"{', '.join(options)} {verb} not go with {mode}")


def named_device(text: str) -> str:
    """The id of the device that a person means, with a line on stderr where that was a choice.

    Raises PredictError as `device_choice`.
    """
    from roofcal.ask.devices import device_choice

    device, remark = device_choice(text)
    if remark:
        remark_on_stderr(f"note: {remark}")
    return device


def option_of(name: str) -> str:
    """The option of an argument: --kv-heads for kv_heads."""
    return "--pass" if name == "passes" else f"--{name.replace('_', '-')}"


def fill_axes(given: dict[str, Any], axes: Sequence[str], words: Sequence[tuple[int, ...]]) -> None:
    """Give the axes the sizes that stand in one word or several, without an option of their own.

    Raises ValueError for another number of sizes, and for an axis that is given twice.
    """
    sizes = [size for word in words for size in word]
    if not sizes:
        return
    if len(sizes) != len(axes):
        names = " x ".join(axes)
        count = "1 size" if len(sizes) == 1 else f"{len(sizes)} sizes"
        written = "x".join(map(str, sizes))
        raise ValueError(f"{written} has {count}, and {names} are {len(axes)}")
    for axis, size in zip(axes, sizes, strict=True):
        if axis in given:
            raise ValueError(f"{axis} is given twice: by {option_of(axis)} and with all the sizes")
        given[axis] = size


def json_mapping(text: str) -> dict[str, Any]:
    """A JSON object from the command line; raises ArgumentTypeError for anything else."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, is a {type(value).__name__}")
    return value


def number_reader(form: str, is_allowed: Callable[[float], bool]) -> Callable[[str], float]:
    """What reads a number of an option; it raises ArgumentTypeError for one that is not allowed."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not is_allowed(value):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a {form} is")
        return value

    return read


def require(given: Mapping[str, Any], command: str, names: Sequence[str]) -> None:
    """Raises ValueError naming the options that a command needs and that were not given."""
    missing = [option_of(name) for name in names if name not in given]
    if missing:
        examples = [f"{name} {_EXAMPLES[name]}" for name in missing if name in _EXAMPLES]
        hint = f" (e.g. {' '.join(examples)})" if examples else ""
        raise ValueError(f"{command} needs {' '.join(missing)}{hint}")


def checked_folder(folder: Path) -> Path:
    """The folder; raises InputError for links and special files in it."""
    check_folder(folder)
    return folder


def show(answer: Answer, *, as_json: bool = False, out: Path | None = None) -> None:
    """Print an answer, or write it to a file: as wide as the terminal, and coloured there."""
    if as_json:
        text = json.dumps(answer.answer, indent=answer.indent)
    elif out or not sys.stdout.isatty():
        text = answer.text()
    else:
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        text = answer.text(_columns(), colours=not is_plain)
    write_or_print(f"{text}\n", out)


def show_line(line: str) -> None:
    """Print a line of an answer that comes line by line, as wide as those of `show`."""
    print("\n".join(wrapped(line, _columns())))


def remark_on_stderr(text: str) -> None:
    """Print a note or a mistake: as wide as a terminal that shows it, whole for all else."""
    lines = text.split("\n")
    if sys.stderr.isatty():
        width = min(shutil.get_terminal_size().columns, WIDTH)
        lines = [part for line in lines for part in wrapped(line, width)]
    print("\n".join(lines), file=sys.stderr)


def _columns() -> int:
    """Those of the terminal, at most WIDTH; WIDTH where none looks."""
    return min(shutil.get_terminal_size().columns, WIDTH) if sys.stdout.isatty() else WIDTH


def write_or_print(text: str, out: Path | None) -> None:
    """Write `text` to the file `out`, whole or not at all; to the standard output without one."""
    if out:
        write_bytes(out, text.encode())
    else:
        sys.stdout.write(text)


# Parameter -> what reads its text, where the type does not say it.
_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(
        ("threshold", "limit"),
        number_reader("fraction between 0 and 1, as 0.02", lambda value: 0 < value < 1),
    ),
    **dict.fromkeys(
        ("price_per_kwh", "price_per_hour"),
        number_reader("price, as 0.12", lambda value: 0 <= value < math.inf),
    ),
    "min_rate": number_reader("rate above 0, as 30", lambda value: 0 < value < math.inf),
    "min_db": number_reader("number of decibels, as 25", math.isfinite),
    **dict.fromkeys(("timing", "slice"), json_mapping),
    **dict.fromkeys(
        ("recipes", "columns"),
        lambda text: [name for one in text.split(",") if (name := one.strip())],
    ),
}
MxNxK = Annotated[tuple[int, ...], "MxNxK", "4096x28672x8192"]  # a word, and an example of it
NxK = Annotated[tuple[int, ...], "NxK", "28672x8192"]
Mode = Callable[..., int | None]


@dataclass(frozen=True)
class Command:
    """A command by its modes.

    either     parameters of which one alone may be given
    is_needed  whether one of them has to be
    """

    modes: Mapping[str, Mode]
    either: Collection[str] = ()
    is_needed: bool = False

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of all modes, those of the mode without an option first."""
        meanings: dict[str, tuple[str, str]] = {}
        parameters: dict[str, list[inspect.Parameter]] = {}
        for option in sorted(self.modes, key=bool):
            meanings = _meanings(inspect.getdoc(self.modes[option])) | meanings
            for name, parameter in inspect.signature(self.modes[option]).parameters.items():
                parameters.setdefault(name, []).append(parameter)
        meanings = _meanings(_COMMON) | meanings
        group: argparse._ActionsContainer = parser
        if self.either:
            group = parser.add_mutually_exclusive_group(required=self.is_needed)
        for name, [parameter, *others] in parameters.items():
            metavar, text = meanings.get(name, ("", ""))
            settings: dict[str, Any] = {
                "help": text.replace("%", "%%"),
                "default": argparse.SUPPRESS,
            }
            settings |= ({"metavar": metavar} if metavar else {}) | _settings(parameter)
            if "choices" in settings:  # a mode may know words that others do not
                words = [word for other in others for word in _settings(other)["choices"]]
                settings["choices"] = list(dict.fromkeys([*settings["choices"], *words]))
            if parameter.kind is not parameter.KEYWORD_ONLY:
                parser.add_argument(name, **settings)
                continue
            has_default = any(one.default is not one.empty for one in (parameter, *others))
            is_in_group = name in self.either
            (group if is_in_group else parser).add_argument(
                option_of(name),
                dest=name,
                required=len(others) + 1 == len(self.modes) and not has_default and not is_in_group,
                **settings,
            )

    def run(self, command: str, given: dict[str, Any], spelling: Mapping[str, str]) -> int | None:
        """Call the mode that was chosen; spelling: argument -> how a person writes it.

        Raises ValueError for arguments that it does not read, and for those that it lacks.
        """
        chosen = ""
        for option in self.modes:
            flag, _, word = option.partition(" ")
            if any(spelling[name] == flag and word in ("", given[name]) for name in given):
                chosen = option
                break
        read = {option: inspect.signature(mode).parameters for option, mode in self.modes.items()}
        unread = [name for name in given if name not in read[chosen]]
        if chosen:
            refuse([spelling[name] for name in unread], chosen)
        elif unread:
            modes_of = {
                spelling[name]: " or ".join(option for option in read if name in read[option])
                for name in unread
            }
            raise ValueError("; ".join(f"{name} needs {text}" for name, text in modes_of.items()))
        if "device" in given:
            given["device"] = named_device(given["device"])
        parameters = read[chosen].values()
        needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
        require(given, f"{command} {chosen}".strip(), needed)
        places = [given.pop(p.name) for p in parameters if p.kind is p.POSITIONAL_ONLY]
        several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
        places += [one for name in several for one in given.pop(name, ())]
        return self.modes[chosen](*places, **given)


def question(
    name: str,
    sizes: Any = None,
    axes: Sequence[str] = (),
    flag: str = "",
    prepare: Callable[[dict[str, Any], Sequence[tuple[int, ...]]], None] | None = None,
) -> Mode:
    """A function of roofcal.api as a mode: it has its arguments and --json, and prints its answer.

    Of keywords that are an unpacked TypedDict, each is an argument.

    sizes    MxNxK or NxK, where all of them may be one word
    axes     the names of the sizes, where the function takes any
    flag     the option that chooses the mode, where none of its arguments does
    prepare  instead of giving such words to axes: what is done with what was given
    """
    from roofcal import api

    api_function = getattr(api, name)
    option, named = inspect.Parameter.KEYWORD_ONLY, list[inspect.Parameter]()
    for parameter in inspect.signature(api_function).parameters.values():
        if get_origin(parameter.annotation) is Unpack:  # keywords that several functions have
            kinds_of_keywords = get_type_hints(get_args(parameter.annotation)[0])
            named += [
                inspect.Parameter(keyword, option, default=None, annotation=kind)
                for keyword, kind in kinds_of_keywords.items()
            ]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            named.append(parameter)
    needed = [parameter.name for parameter in named if parameter.default is parameter.empty]

    def ask(*words: tuple[int, ...], json: bool = False, **given: Any) -> None:
        if prepare:
            prepare(given, words)
        elif sizes:
            fill_axes(given, get_args(sizes)[1].lower().split("x"), words)
        given.pop(flag, None)
        require(given, name.partition("_")[0], needed)
        show(api_function(**given), as_json=json)

    own = [parameter.replace(kind=option, default=None) for parameter in named]
    kinds = dict.fromkeys(axes, int) | {"json": bool} | ({flag: bool} if flag else {})
    own += [
        inspect.Parameter(argument, option, default=None, annotation=kind)
        for argument, kind in kinds.items()
    ]
    if sizes:
        words = inspect.Parameter("sizes", inspect.Parameter.VAR_POSITIONAL, annotation=sizes)
        own.insert(0, words)
    ask.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]  # inspect reads it
    summary, _, rest = (inspect.getdoc(api_function) or "").partition("Args:\n")
    extra = dict.fromkeys(axes, "one size; or give all sizes at once")
    if flag:
        extra[flag] = summary[:1].lower() + summary[1:].partition("\n")[0]
    lines = "".join(f"    {argument}: {text}\n" for argument, text in extra.items())
    ask.__doc__ = f"{summary}Args:\n{lines}{rest}"
    return ask


def _meanings(docstring: str | None) -> dict[str, tuple[str, str]]:
    """Argument -> (the name of its value, what it means), from the section Args of a docstring."""
    entries = (docstring or "").partition("Args:\n")[2].partition("\n\n")[0]
    entry = re.compile(r"^    (\w+)(?: \((\S+)\))?: (.*(?:\n {8}.*)*)", re.MULTILINE)
    return {
        name: (metavar, " ".join(text.split()).removesuffix("."))
        for name, metavar, text in entry.findall(entries)
    }


def _settings(parameter: inspect.Parameter) -> dict[str, Any]:
    """What argparse has to know of the type of a parameter."""
    kind = parameter.annotation
    if get_origin(kind) is Annotated:
        _, metavar, example = get_args(kind)
        text = f"all sizes, as {example} or {example.replace('x', ' ')}"
        return {"nargs": "*", "type": sizes_text, "metavar": metavar, "help": text}
    if get_origin(kind) in (UnionType, Union):  # X | None
        kind = next(one for one in get_args(kind) if one is not NoneType)
    if kind is bool:
        return {"action": "store_true"}
    settings: dict[str, Any] = {}
    if parameter.kind is parameter.VAR_POSITIONAL:
        settings = {"nargs": "*"}
    elif get_origin(kind) in (list, tuple):
        settings = {"action": "append"} if get_origin(kind) is list else {"nargs": "+"}
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return settings | {"choices": get_args(kind)}
    return settings | {"type": _READERS.get(parameter.name, whole_number if kind is int else kind)}
