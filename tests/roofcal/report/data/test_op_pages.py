"""What the ops say about themselves, and what the report makes of an op that says nothing."""

from pathlib import Path

import pytest

from roofcal.ops import BY_NAME, FOLDERS
from roofcal.ops.constants import OpPage
from roofcal.report.chapter import Chapter
from roofcal.report.data import drawing, op_pages
from roofcal.report.data.op_pages import page_of
from roofcal.report.kit.charts import COLOURS
from tests.roofcal.report.synthetic import MadeUpRun, cast


def test_ops_with_a_baseline_say_what_their_times_include() -> None:
    for op in BY_NAME.values():
        if op.baseline_recipe and op.role == "study":
            words = op_pages.caption_words(op.name)["time_includes"]
            includes_casts = op_pages.page_of(op.name).time_note.endswith("with casts")
            assert ("include" in words) == includes_casts
            assert words.endswith(".")


def test_an_op_without_a_page_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = op_pages.page_of
    monkeypatch.setattr(op_pages, "page_of", lambda op: OpPage() if op == "cast" else whole(op))
    casts = MadeUpRun()
    for rows in (1024, 16384):
        casts.measure(cast(rows, 8192, "fp8_rowwise_dim0"))
    chapter = Chapter(casts.analysed(tmp_path), "x")
    titles = {figure.title for figure in chapter.figures if figure.op == "cast"}
    assert "cast: achieved bandwidth" in titles
    assert "points-cast" in "".join(str(getattr(block, "id", "")) for block in chapter.blocks)


@pytest.mark.parametrize("op", BY_NAME)
def test_recipes_of_one_op_have_colours_of_their_own(op: str) -> None:
    colours = [drawing.recipe_colour(recipe) for recipe in BY_NAME[op].recipes]
    assert op == "probe_launch" or len(set(colours)) == len(colours)
    assert set(colours) <= set(COLOURS.values())


def test_pages_of_ops_agree_on_the_colour_of_a_recipe_and_the_marker_of_a_provider() -> None:
    for kind in ("colours", "markers"):
        pairs = {pair for op in FOLDERS for pair in getattr(page_of(op), kind).items()}
        assert len(dict(pairs)) == len(pairs)
