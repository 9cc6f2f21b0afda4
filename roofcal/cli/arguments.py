"""What several commands take and give: sizes, and text to a file or to the terminal."""

import argparse
import sys
from pathlib import Path


def whole_number(text: str) -> int:
    """A size from the command line; raises ArgumentTypeError unless it is whole and above 0."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def write_or_print(text: str, out: Path | None) -> None:
    """Write `text` to the file `out`, whole or not at all; to the standard output without one."""
    from roofcal.core.files import write_bytes

    if out:
        write_bytes(out, text.encode())
    else:
        sys.stdout.write(text)
