"""Changes of a sound checkout: what a stranger, a bad cable or a full disk may leave there."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

Change = Callable[[Path], None]


def nothing(_: Path) -> None:
    """Leave the checkout as it is: the arguments are what is hostile."""


def put(path: str, content: str | bytes) -> Change:
    """Write a file of the checkout."""

    def change(checkout: Path) -> None:
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def packed(path: str, *parts: tuple[bytes, int]) -> Change:
    """Write a gzip file of (bytes, times) parts, small on the disk."""

    def change(checkout: Path) -> None:
        with gzip.open(checkout / path, "wb", 9) as stream:
            for content, times in parts:
                stream.write(content * times)

    return change


def edited(path: str, old: str, new: str) -> Change:
    """Replace a text in a file of the checkout, once; it must be there."""

    def change(checkout: Path) -> None:
        text = (checkout / path).read_text()
        assert old in text, f"{old!r} is not in {path}"
        (checkout / path).write_text(text.replace(old, new, 1))

    return change


def inserted(path: str, line: bytes, place: int = 1) -> Change:
    """Add a line to a file of records, before the line of that index."""

    def change(checkout: Path) -> None:
        lines = (checkout / path).read_bytes().splitlines(keepends=True)
        (checkout / path).write_bytes(b"".join([*lines[:place], line + b"\n", *lines[place:]]))

    return change


def record(path: str, **changes: Any) -> Change:
    """Change fields of the first record of a file; a dot in a name goes into a mapping."""

    def change(checkout: Path) -> None:
        first, *rest = (checkout / path).read_text().splitlines()
        body = json.loads(first)
        for name, value in changes.items():
            *within, key = name.split("__")
            part = body
            for step in within:
                part = part[step]
            part[key] = value
        (checkout / path).write_text("\n".join([json.dumps(body), *rest, ""]))

    return change


def linked(path: str, target: str) -> Change:
    """Replace a file or folder of the checkout by a symbolic link."""

    def change(checkout: Path) -> None:
        place = checkout / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            place.rename(place.with_name("moved-away"))
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    return change


def pipe(path: str) -> Change:
    """Replace a file by a named pipe, at which a reader would wait for ever."""

    def change(checkout: Path) -> None:
        (checkout / path).unlink(missing_ok=True)
        os.mkfifo(checkout / path)

    return change


def renamed(path: str, name: str) -> Change:
    """Give a file or folder of the checkout another name."""

    def change(checkout: Path) -> None:
        (checkout / path).rename((checkout / path).with_name(name))

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(checkout: Path) -> None:
        for one in changes:
            one(checkout)

    return change
