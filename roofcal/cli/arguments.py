"""What several commands share: types of arguments, files of a device, where text goes."""

import argparse
import json
import math
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import Answer


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
        print(f"note: {remark}", file=sys.stderr)
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


# what a person may give for an option that is missing
_EXAMPLES: Final = {"--device": "h200", "--recipe": "fp8_axiswise", "--model": "llama3-70b"}


def require(given: Mapping[str, Any], command: str, names: Sequence[str]) -> None:
    """Raises ValueError naming the options that a command needs and that were not given."""
    missing = [option_of(name) for name in names if name not in given]
    if missing:
        examples = [f"{name} {_EXAMPLES[name]}" for name in missing if name in _EXAMPLES]
        hint = f" (e.g. {' '.join(examples)})" if examples else ""
        raise ValueError(f"{command} needs {' '.join(missing)}{hint}")


def checked_folder(folder: Path) -> Path:
    """The folder; raises InputError for links and special files in it."""
    from roofcal.core.files import check_folder

    check_folder(folder)
    return folder


def show(answer: Answer, *, as_json: bool = False, out: Path | None = None) -> None:
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
