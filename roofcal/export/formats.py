"""The formats by name.

A format is a module of this package with

    FORMAT          its name on the command line
    SUFFIX          of its files, without the dot
    write(subject)  the file as text: equal for equal subjects; raises ExportError
"""

import difflib
from typing import Final, Protocol

from roofcal.export import (
    aiconfigurator,
    calculon,
    csv,
    genz,
    json,
    latex,
    llm_analysis,
    markdown,
    torchao,
    yaml,
)
from roofcal.export.errors import ExportError
from roofcal.export.subject import Subject


class Format(Protocol):
    """What every format has; see the module."""

    FORMAT: str
    SUFFIX: str

    def write(self, subject: Subject, /) -> str:
        """The file as text."""
        ...


_ALL: Final[tuple[Format, ...]] = (
    torchao, aiconfigurator, calculon, llm_analysis, genz, csv, json, yaml, markdown, latex
)  # fmt: skip
FORMATS: Final[dict[str, Format]] = {form.FORMAT: form for form in _ALL}


def format_named(name: str) -> Format:
    """The format of a name; raises ExportError with the nearest name and all that there are."""
    if name not in FORMATS:
        close = difflib.get_close_matches(name.lower(), FORMATS, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ";"
        raise ExportError(f"unknown format '{name}'{hint} there are {', '.join(FORMATS)}")
    return FORMATS[name]


def export(name: str, subject: Subject) -> str:
    """The file of a format; raises ExportError naming the format and what it lacks."""
    form = format_named(name)
    try:
        return form.write(subject)
    except ExportError as error:
        raise ExportError(f"format {name}: {error}") from None
