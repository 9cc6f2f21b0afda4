"""The formats by name. Each family of formats is a module of this package with its FORMATS."""

from typing import Final

from roofcal.core.names import did_you_mean
from roofcal.export import inference, tables, training
from roofcal.export.subject import ExportError, Subject, Writer

FORMATS: Final[dict[str, Writer]] = training.FORMATS | inference.FORMATS | tables.FORMATS


def check_format(name: str) -> None:
    """Raises ExportError with the nearest name and all that there are for an unknown format."""
    if name not in FORMATS:
        suggestion = did_you_mean(name.lower(), FORMATS, otherwise=";")
        raise ExportError(f"unknown format '{name}'{suggestion} there are {', '.join(FORMATS)}")


def export(name: str, subject: Subject) -> str:
    """The file of a format; raises ExportError naming the format and what it lacks."""
    check_format(name)
    try:
        return FORMATS[name](subject)
    except ExportError as error:
        raise ExportError(f"format {name}: {error}") from None
