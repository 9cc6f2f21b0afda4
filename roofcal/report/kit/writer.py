"""Makes blocks of the tables and figures of a section: with ids, captions and sources."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from roofcal.report.kit.blocks import Block, Column, FigureBlock, Table, make_table
from roofcal.report.kit.charts import Chart
from roofcal.report.kit.templates import prose, render_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart with its words.

    key    <section folder>/<key>.md says what it shows and how that was measured
    alt    what a reader who cannot see it should know; `facts` follow it
    facts  numbers of this very figure, one or two sentences
    op     the op whose tidy table it was drawn from
    """

    key: str
    chart: Chart
    alt: str
    facts: str
    op: str


def thinned(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most so many rows, evenly spaced in the order of measuring: more would hide each other."""
    if len(rows) <= most:
        return rows
    return rows.iloc[[index * len(rows) // most for index in range(most)]]


def thinning_note(drawn: int, total: int) -> str:
    """A sentence for a figure that leaves points out, "" for one that draws all."""
    return f" {drawn:,} of {total:,} points are drawn, evenly chosen." if drawn < total else ""


class CaptionError(ValueError):
    """A caption that is missing or has no heading; the message says how to write it."""


def read_caption(path: Path, words: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """(title, paragraphs as HTML) of a figure; raises as caption_text."""
    title, text = caption_text(path, words)
    return title, tuple(map(prose, re.split(r"\n\s*\n", text)))


def caption_text(path: Path, words: Mapping[str, str]) -> tuple[str, str]:
    """(title, text below it) of a figure, as plain Markdown.

    Args:
        path: the Markdown file.
        words: what the names in braces stand for.

    Raises:
        CaptionError: the file is missing or does not begin with a heading.
    """
    if not path.is_file():
        raise CaptionError(f"{path} is missing: every figure has a caption")
    text = render_file(path, **words).strip()
    head, _, rest = text.partition("\n")
    if not head.startswith("# ") or not rest.strip():
        raise CaptionError(f"{path}: write '# title', an empty line, and what the figure shows")
    return head.removeprefix("# ").strip(), rest.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSource:
    """Where the numbers of an op come from.

    csv      name of its tidy table
    command  prints that table
    words    what captions say of the op, by name
    """

    csv: str
    command: str
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionWriter:
    """Turns the frames and pictures of a section into blocks.

    anchor     id of the chapter: ids in it begin with this
    captions   folder of the captions: that of the section
    source_of  op -> where its numbers come from
    """

    anchor: str
    captions: Path
    source_of: Callable[[str], OpSource]

    def csv(self, op: str) -> str:
        """Name of the tidy table of an op."""
        return self.source_of(op).csv

    def table(
        self,
        name: str,
        title: str,
        frame: pd.DataFrame,
        columns: Sequence[Column],
        source: str = "",
    ) -> Table:
        """A table; `name` is its id within the chapter, `source` the CSV file that has it whole."""
        return make_table(frame, columns, id=f"{self.anchor}-{name}", caption=title, source=source)

    def filled_table(self, name: str, title: str, frame: pd.DataFrame, *shown: Any) -> list[Table]:
        """The table, as `table` makes it; nothing for a frame without rows."""
        return [self.table(name, title, frame, *shown)] if len(frame) else []

    def figures(
        self, *pictures: Picture | None, source: str = "", command: str = ""
    ) -> Iterable[Block]:
        """Figures of the pictures that were drawn.

        source, command: of the data, where it is not the tidy table of the picture's op.
        """
        for picture in pictures:
            if picture is None:
                continue
            origin = self.source_of(picture.op)
            caption = self.captions / f"{picture.key}.md"
            title, paragraphs = read_caption(caption, origin.words)
            yield FigureBlock(
                id=f"{self.anchor}-figure-{picture.key}-{picture.op}",
                key=picture.key,
                title=title,
                op=picture.op,
                caption=paragraphs,
                facts=picture.facts,
                source=source or origin.csv,
                command=command or origin.command,
                alt=f"{picture.alt} {picture.facts}",
                chart=picture.chart,
                points=f"{self.anchor}/{picture.op}",
                records=f"{self.anchor}-points-{picture.op}",
            )
