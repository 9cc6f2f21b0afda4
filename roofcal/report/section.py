"""What one section of the report declares: `SECTION` in the `__init__.py` of its folder."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.op_pages import FOLDER_OF_SECTIONS
from roofcal.report.kit.blocks import Block


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A table that stands beside the page as a CSV file.

    name         of the file; tables of one name, also of several runs, become one file
    labels_last  whether `device` and `environment_id` stand behind the frame's columns, as in tidy
                 frames; else they stand in front
    """

    name: str
    frame: pd.DataFrame
    labels_last: bool = field(default=False, kw_only=True)

    def labelled(self, analysis: Analysis) -> pd.DataFrame:
        """The frame with the device and environment that it is about."""
        labels = {"device": analysis.device, "environment_id": analysis.environment_id}
        frame = self.frame.assign(**labels)
        return frame if self.labels_last else frame[[*labels, *self.frame.columns]]


def tidy_file(analysis: Analysis, op: str) -> str:
    """The name of the CSV file of the tidy frame of an op."""
    return f"{analysis.device}_{op}.csv"


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentence that answers a question.

    is_open  whether the records cannot answer it; then `text` says why
    """

    text: str
    is_open: bool = field(default=False, kw_only=True)


# What a section yields. A table without rows is left out; None stands for a figure without data.
Item = Block | CsvTable | Answer | None


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the chapter of a run.

    title     its heading
    question  key of the question of roofcal/report/page.py that it helps to answer
    show      what it shows of a run: its tables, figures and sentences in the order of the page,
              and the CSV files that it publishes. Exactly one section of a question yields its
              answer. A section without any block is left out of the page
    lead      keys of figures that may stand on the first page; of each op the first that is drawn
    key       its id in the page: the name of its folder, with `-` for `_`; page.py fills it in
    """

    title: str
    question: str
    show: Callable[[Analysis], Iterable[Item]]
    lead: tuple[str, ...] = ()
    key: str = field(default="", kw_only=True)

    @property
    def folder(self) -> Path:
        """Where its code and its captions stand."""
        return FOLDER_OF_SECTIONS / self.key.replace("-", "_")
