"""Tables and figures of a section get ids, sources and captions of their own."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.report.kit.blocks import FigureBlock
from roofcal.report.kit.columns import text
from roofcal.report.kit.writer import (
    CaptionError,
    OpSource,
    Picture,
    SectionWriter,
    thinned,
    thinning_note,
)
from tests.roofcal.report.kit.test_charts import chart


@pytest.fixture
def writer(tmp_path: Path) -> SectionWriter:
    (tmp_path / "dots.md").write_text("# Dots of {{ title }}\n\nWhat they show.\n")
    return SectionWriter(
        anchor="h200",
        captions=tmp_path,
        source_of=lambda op: OpSource(
            csv=f"{op}.csv", command=f"print --op {op}", words={"title": op.upper()}
        ),
    )


def picture(key: str = "dots") -> Picture:
    return Picture(key=key, chart=chart(), op="gemm", alt="Two dots.", facts="There are 2.")


def test_a_table_is_named_after_the_chapter(writer: SectionWriter) -> None:
    frame = pd.DataFrame({"recipe": ["a", "b"]})
    table = writer.table("x", "A table", frame, [text("recipe", "recipe")], "x.csv")
    assert (table.id, table.caption, table.source) == ("h200-x", "A table", "x.csv")
    assert table.total == 2


def test_figures_are_told_apart_and_name_their_data(writer: SectionWriter) -> None:
    first, second = writer.figures(picture(), None, picture(), command="a command")
    assert isinstance(first, FigureBlock)
    assert isinstance(second, FigureBlock)
    assert first.source == writer.csv("gemm") == "gemm.csv"
    assert first.command == "a command"
    (usual,) = writer.figures(picture(), source="other.csv")
    assert isinstance(usual, FigureBlock)
    assert (usual.source, usual.command) == ("other.csv", "print --op gemm")


def test_a_figure_has_the_caption_beside_its_section_in_the_words_of_its_op(
    writer: SectionWriter,
) -> None:
    (figure,) = writer.figures(picture())
    assert isinstance(figure, FigureBlock)
    assert (figure.title, figure.caption) == ("Dots of GEMM", ("What they show.",))
    assert figure.alt == "Two dots. There are 2."
    with pytest.raises(CaptionError, match=r"none\.md is missing"):
        list(writer.figures(picture("none")))


def test_many_points_are_thinned_evenly_and_a_sentence_says_so() -> None:
    rows = pd.DataFrame({"a": range(1000)})
    assert thinned(rows, 1000) is rows
    assert thinning_note(1000, 1000) == ""
    assert list(thinned(rows, 4)["a"]) == [0, 250, 500, 750]
    assert thinning_note(4, 1000) == " 4 of 1,000 points are drawn, evenly chosen."
