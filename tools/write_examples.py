"""Writes what the examples of README.md and docs/*.md print, from the root of a checkout.

An example is an indented line `$ roofcal ...` and the output below it, or Python after
`>>>` and the value below it. Commands whose output depends on the machine stay as they are.
tests/test_docs.py and tests/roofcal/test_api.py compare the pages with what is printed.
"""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

_OF_THIS_MACHINE = ("doctor", "verify", "plan", "time")
_LEFT_OUT = "    ..."  # a line of an example in the place of many
_EXAMPLE = re.compile(
    r"^    \$ roofcal (?P<command>.*)\n(?:    (?!\$ ).*\n|\n(?=    (?!\$ )))+",
    re.MULTILINE,
)


def with_output(example: re.Match[str]) -> str:
    """The example with what its command prints now; as it is where that depends on the machine."""
    arguments = shlex.split(example["command"])
    if arguments[0] in _OF_THIS_MACHINE:
        return example[0]
    command = [sys.executable, "-m", "roofcal", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [f"    {line}".rstrip() for line in (run.stdout or run.stderr).splitlines()]
    shown = example[0].splitlines()[1:]
    if _LEFT_OUT in shown:
        gap = shown.index(_LEFT_OUT)
        lines = [*lines[:gap], _LEFT_OUT, *lines[gap + 1 - len(shown) :]]
    return "\n".join([f"    $ roofcal {example['command']}", *lines]) + "\n"


def with_values(page: str) -> str:
    """The page with the values that its Python examples give now, run one after the other."""
    names: dict[str, object] = {}
    parts = doctest.DocTestParser().parse(page)
    for example in (part for part in parts if isinstance(part, doctest.Example)):
        if not example.want:
            exec(example.source, names)
            continue
        indent = " " * example.indent
        shown = "".join(f"{indent}{line}\n" for line in example.want.splitlines())
        value = f"{indent}{eval(example.source, names)!r}\n"
        first = page.index(f">>> {example.source}")
        page = page[:first] + page[first:].replace(shown, value, 1)
    return page


def main() -> None:
    """Write every page whose examples print something else now, and name it."""
    for page in (Path("README.md"), *sorted(Path("docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        fresh = with_values(_EXAMPLE.sub(with_output, text))
        if fresh != text:
            page.write_text(fresh, encoding="utf-8")
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
