"""What several commands share: types of arguments, files of a device, where text goes."""

import argparse
import json
import math
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from roofcal.ask.answers import Answer
from roofcal.cli.parser import Parser
from roofcal.core.paths import RunFolder

# What add_subparsers gives; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def whole_number(text: str) -> int:
    """A size from the command line; raises ArgumentTypeError unless it is from 1 to 2^30."""
    from roofcal.core.csv_files import LARGEST_SIZE, is_size

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


def add_sizes(parser: argparse.ArgumentParser, metavar: str) -> None:
    """Declare the sizes in one word or several, instead of an option for each axis."""
    example = {"NxK": "28672x8192"}.get(metavar, "4096x28672x8192")
    text = f"all sizes, as {example} or {example.replace('x', ' ')}"
    parser.add_argument("sizes", nargs="*", type=sizes_text, metavar=metavar, help=text)


def check_mode(
    options: argparse.Namespace, modes: Mapping[str, Collection[str]], mode: str | None = None
) -> None:
    """Raises ValueError naming all arguments that were given and that a mode does not read.

    modes: option that chooses a mode of a command, as `--run`, or "" for what it does without ->
        the names of the arguments that it reads. The first that was given counts.
    mode: a key of `modes`, where the options that were given do not tell which it is.
    """
    if mode is None:
        mode = next((option for option in modes if option in options.given.values()), "")
    unread = [name for name in options.given if name not in modes[mode]]
    if mode:
        refuse_given(options, unread, mode)
    if unread:
        modes_of = {
            options.given[name]: " or ".join(other for other in modes if name in modes[other])
            for name in unread
        }
        raise ValueError("; ".join(f"{option} needs {text}" for option, text in modes_of.items()))


def refuse_given(options: argparse.Namespace, names: Collection[str], mode: str) -> None:
    """Raises ValueError naming all arguments of `names` that were given beside `mode`."""
    given = [option for name, option in options.given.items() if name in names]
    if given:
        verb = "do" if given[1:] else "does"
        raise ValueError(f"{', '.join(given)} {verb} not go with {mode}")


def named_device(text: str) -> str:
    """The id of the device that a person means, with a line on stderr where that was a choice.

    Raises PredictError as `device_choice`.
    """
    from roofcal.ask.names import device_choice

    device, remark = device_choice(text)
    if remark:
        print(f"note: {remark}", file=sys.stderr)
    return device


def study_axes() -> tuple[str, ...]:
    """The axes of all ops of the study, each once."""
    from roofcal.ops import OPS

    return tuple(dict.fromkeys(axis for op in OPS if op.role == "study" for axis in op.axes))


def option_of(axis: str) -> str:
    """The option that gives a size: --kv-heads for kv_heads."""
    return f"--{axis.replace('_', '-')}"


def fill_axes(options: argparse.Namespace, axes: Sequence[str]) -> None:
    """Write the sizes that have no option of their own into the options of the axes.

    Raises ValueError for another number of sizes, and for an axis that is given twice.
    """
    sizes = [size for word in options.sizes for size in word]
    if not sizes:
        return
    if len(sizes) != len(axes):
        names = " x ".join(axes)
        raise ValueError(f"{'x'.join(map(str, sizes))} has {len(sizes)} "
                         f"size{'s'[: len(sizes) != 1]}, and {names} are {len(axes)}")  # fmt: skip
    for axis, size in zip(axes, sizes, strict=True):
        if getattr(options, axis, None) is not None:  # ops have axes without an option too
            raise ValueError(f"{axis} is given twice: by {option_of(axis)} and with all the sizes")
        setattr(options, axis, size)


def json_mapping(text: str) -> dict[str, Any]:
    """A JSON object from the command line; raises ArgumentTypeError for anything else."""
    from roofcal.core.files import parse_json

    try:
        value = parse_json(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, is a {type(value).__name__}")
    return value


def fraction(text: str) -> float:
    """A fraction from the command line; raises ArgumentTypeError unless it is in (0, 1)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction between 0 and 1, as 0.02 is")
    return value


def price(text: str) -> float:
    """A price from the command line; raises ArgumentTypeError unless it is a number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a price, as 0.12 is")
    return value


PRICES: Final = ("energy", "price_per_kwh", "price_per_hour")


def add_prices(parser: argparse.ArgumentParser) -> None:
    """Declare what asks for joules and dollars per token."""
    parser.add_argument(
        "--energy", action="store_true", help="joules per token: board power by NVML, not the wall"
    )
    parser.add_argument(
        "--price-per-kwh", type=price, help="dollars per kWh of the boards, for dollars per token"
    )
    parser.add_argument(
        "--price-per-hour", type=price, help="dollars per hour of one GPU, for dollars per token"
    )


# what a person may give for an option that is missing
_EXAMPLES: Final = {"--device": "h200", "--recipe": "fp8_axiswise", "--model": "llama3-70b"}


def require(options: argparse.Namespace, command: str, *names: str) -> None:
    """Raises ValueError naming the options that a command needs and that were not given."""
    missing = [option_of(name) for name in names if getattr(options, name, None) is None]
    if missing:
        examples = [f"{name} {_EXAMPLES[name]}" for name in missing if name in _EXAMPLES]
        hint = f" (e.g. {' '.join(examples)})" if examples else ""
        raise ValueError(f"{command} needs {' '.join(missing)}{hint}")


def checked_folder(options: argparse.Namespace) -> Path:
    """The folder given as --run; raises InputError for links and special files in it."""
    from roofcal.core.files import check_folder

    folder: Path = options.folder
    check_folder(folder)
    return folder


def add_device(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Declare the --device and --environment whose calibration a command reads."""
    parser.add_argument("--device", required=required, help="e.g. h200; `devices` lists them")
    parser.add_argument("--environment", help="environment id; default: the latest calibration")


MODELS_HELP: Final = (
    "the model of time: calibrated (default), wave, torchao or datasheet; all but the first answer "
    "for cards that nobody measured"
)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Declare the --model of time that answers."""
    parser.add_argument("--model", default="calibrated", help=MODELS_HELP)


def add_passes_and_weights(parser: argparse.ArgumentParser) -> None:
    """Declare --pass and --weights, which say what of a linear is asked about."""
    parser.add_argument(
        "--pass",
        dest="passes",
        choices=("forward", "forward_backward"),
        default="forward",
        help="forward: inference (default); forward_backward: a training step",
    )
    parser.add_argument(
        "--weights",
        choices=("cached", "cast"),
        help="cached: cast beforehand (default forward); cast: each time (default with backward)",
    )


def add_run_folder(parser: argparse.ArgumentParser, help_text: str = "run folder") -> None:
    """Declare the required --run of a command that works on one run folder."""
    parser.add_argument("--run", type=Path, required=True, dest="folder", help=help_text)


MAP_OF_RUN: Final = ("folder", "calibration", "out")


def add_map_of_run(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare --run, --calibration and --out of a command that also writes a CSV for a whole run.

    what: the content of that CSV, in words.
    """
    parser.add_argument("--run", type=Path, dest="folder", help=f"{what} of a run folder, as CSV")
    parser.add_argument("--calibration", type=Path, help="with --run: the calibration to use")
    parser.add_argument("--out", type=Path, help="with --run: write here")


def calibration_file(options: argparse.Namespace) -> Path:
    """The calibration to use with --run: --calibration, or the one of the run folder."""
    calibration_file: Path | None = options.calibration
    return calibration_file or RunFolder.at(options.folder).calibration_file


def show(answer: Answer, *, as_json: bool, out: Path | None = None) -> None:
    """Print an answer, or write it to a file; sentences end where the terminal does."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not out else None
    write_or_print((json.dumps(answer.answer) if as_json else answer.text(width)) + "\n", out)


def write_or_print(text: str, out: Path | None) -> None:
    """Write `text` to the file `out`, whole or not at all; to the standard output without one."""
    from roofcal.core.files import write_bytes

    if out:
        write_bytes(out, text.encode())
    else:
        sys.stdout.write(text)
