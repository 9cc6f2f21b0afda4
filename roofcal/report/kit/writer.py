"""Tables and figures of one section as blocks: their ids, their captions, and their sources."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from roofcal.report.kit.blocks import Block, Column, FigureBlock, Table, make_table
from roofcal.report.kit.captions import read_caption
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.svg import inline_svg


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
    prefixes   prefix of each further figure's ids, unlike that of any other figure on the page
    captions   folder of the captions: that of the section
    source_of  op -> where its numbers come from
    has_files  whether figures become files: if not, those with a chart are not drawn
    """

    anchor: str
    prefixes: Iterator[str]
    captions: Path
    source_of: Callable[[str], OpSource]
    has_files: bool = True

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
            alt = f"{picture.alt} {picture.facts}"
            prefix, is_drawn = next(self.prefixes), self.has_files or picture.chart is None
            yield FigureBlock(
                id=f"{self.anchor}-figure-{picture.key}-{picture.op}",
                key=picture.key,
                title=title,
                op=picture.op,
                svg=inline_svg(picture.figure, prefix, alt) if is_drawn else "",
                caption=paragraphs,
                facts=picture.facts,
                source=source or origin.csv,
                command=command or origin.command,
                alt=alt,
                chart=picture.chart,
                points=f"{self.anchor}/{picture.op}",
                records=f"{self.anchor}-points-{picture.op}",
            )


def figure_prefixes(*place: int) -> Iterator[str]:
    """Prefixes of the figures of one section.

    place: its numbers within the page, such as those of its chapter and of the section in it.
    """
    return (f"f{'x'.join(map(str, (*place, number)))}x" for number in count(1))
