"""Draws the tables and figures of one chapter: their ids, sources and commands."""

from collections.abc import Iterator, Sequence
from itertools import count

import pandas as pd

from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import table_command
from roofcal.report.kit.blocks import Block, Column, FigureBlock, Prose, Table, make_table
from roofcal.report.kit.captions import caption
from roofcal.report.kit.pictures import Picture
from roofcal.report.kit.svg import inline_svg
from roofcal.report.sections.transfer.table import with_labels


class Pen:
    """Knows the run that a chapter is about, and how the chapter names things."""

    def __init__(self, analysis: Analysis, anchor: str, number: int) -> None:
        """`number` tells the figures of one chapter from those of another."""
        self.a, self.anchor = analysis, anchor
        self._prefix = f"f{number}x"
        self._figures = count(1)

    def studies(self) -> list[str]:
        """Study ops with at least one point."""
        found = self.a.frames.items()
        return [op for op, frame in found if BY_NAME[op].role == "study" and len(frame)]

    def csv(self, op: str) -> str:
        """Name of the tidy table of an op."""
        return f"{self.a.device}_{op}.csv"

    def errors(self, op: str) -> pd.DataFrame:
        """Errors of one op under the names that people read."""
        some = self.a.errors[self.a.errors["op"] == op]
        return with_labels(some, self.a.labels)

    def table(
        self,
        name: str,
        title: str,
        frame: pd.DataFrame,
        wanted: Sequence[Column],
        source: str = "",
    ) -> Table:
        """A table of this chapter; `name` is its own within it."""
        return make_table(frame, wanted, id=f"{self.anchor}-{name}", caption=title, source=source)

    def drawn(
        self, pictures: Sequence[Picture | None], source: str = "", command: str = ""
    ) -> Iterator[Block]:
        """Figures; source and command: of the data, where it is not the tidy table of the op."""
        for picture in pictures:
            if picture is None:
                continue
            prefix = f"{self._prefix}{next(self._figures)}x"
            title, paragraphs = caption(picture.key)
            yield FigureBlock(
                id=f"{self.anchor}-figure-{picture.key}-{picture.op}",
                key=picture.key,
                title=title,
                op=picture.op,
                svg=inline_svg(picture.figure, prefix, picture.alt),
                caption=paragraphs,
                facts=picture.facts,
                source=source or self.csv(picture.op),
                command=command or table_command(self.a.run, picture.op),
            )


def absent(text: str) -> Prose:
    """A remark that something is not there."""
    return Prose(text=text, quiet=True)
