"""The blocks and the CSV files that a run has in the report."""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from roofcal.report.chapter import Chapter, placed_blocks
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.page import SECTIONS
from roofcal.report.section import Answer, CsvTable, Item

ANCHOR = "x"


def shown_by(analysis: Analysis, key: str) -> list[Item]:
    """All that one section yields."""
    (section,) = [section for section in SECTIONS if section.key == key]
    return list(section.show(analysis))


def blocks_of(analysis: Analysis, key: str) -> list[Any]:
    """The blocks of one section, without what only files hold."""
    return blocks_among(shown_by(analysis, key), analysis, key)


def blocks_among(items: list[Item], analysis: Analysis, key: str) -> list[Any]:
    """The blocks among what one section yields."""
    (section,) = [section for section in SECTIONS if section.key == key]
    return list(placed_blocks(section, items, analysis, ANCHOR))


def answer_of(analysis: Analysis, key: str) -> Answer:
    """What a section says to the question that it answers."""
    (answer,) = [item for item in shown_by(analysis, key) if isinstance(item, Answer)]
    return answer


def csv_tables(analysis: Analysis) -> list[tuple[str, pd.DataFrame]]:
    """(file name, table) of all that a run has beside the page."""
    return Chapter(analysis, ANCHOR).labelled_tables()


@dataclass
class Shown:
    """All that one section shows of a run, by name: ids of tables, keys of figures, files.

    Texts are in letters that a test can type; `quiet` are remarks that something is missing.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    figures: dict[str, Picture] = field(default_factory=dict)
    files: dict[str, pd.DataFrame] = field(default_factory=dict)
    prose: list[str] = field(default_factory=list)
    quiet: list[str] = field(default_factory=list)
    answer: str = ""


def shown_of(analysis: Analysis, key: str, **frames: pd.DataFrame) -> Shown:
    """What a section shows of a run; frames: op -> its points, where these alone are measured."""
    if frames:
        analysis = replace(analysis, frames=frames)
    shown = Shown()
    for item in shown_by(analysis, key):
        match item:
            case Table() if len(item.frame):
                shown.tables[item.id] = item
            case Picture():
                shown.figures[item.key] = item
            case CsvTable():
                shown.files[item.name] = item.frame
            case Prose():
                (shown.quiet if item.quiet else shown.prose).append(plain(item.text))
            case Answer():
                shown.answer = plain(item.text)
    return shown


def plain(text: str) -> str:
    """A text for people with plain spaces, x, u and - for its signs."""
    return text.translate(
        str.maketrans(
            "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{MICRO SIGN}\N{MINUS SIGN}", " xu-"
        )
    )
