"""The formats by name. Each family of formats is a module of this package with a list FORMATS."""

from typing import Final

from roofcal.core.names import did_you_mean
from roofcal.export import inference, tables, training
from roofcal.export.subject import ExportError, Format, Subject

FORMATS: Final[dict[str, Format]] = {
    form.name: form for form in (*training.FORMATS, *inference.FORMATS, *tables.FORMATS)
}


def format_named(name: str) -> Format:
    """The format of a name; raises ExportError with the nearest name and all that there are."""
    if name not in FORMATS:
        suggestion = did_you_mean(name.lower(), FORMATS, otherwise=";")
        raise ExportError(f"unknown format '{name}'{suggestion} there are {', '.join(FORMATS)}")
    return FORMATS[name]


def export(name: str, subject: Subject) -> str:
    """The file of a format; raises ExportError naming the format and what it lacks."""
    form = format_named(name)
    try:
        return form.write(subject)
    except ExportError as error:
        raise ExportError(f"format {name}: {error}") from None
