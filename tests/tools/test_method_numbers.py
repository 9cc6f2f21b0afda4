"""The measured numbers of README.md, its figure and docs/method.md are those of the tables."""

import re
from pathlib import Path

import pytest

from tools.method_numbers import (
    ERRORS,
    PAGES,
    measured_numbers,
    tables_of_gpus,
    tables_of_publication,
    with_numbers,
)
from tools.write_pictures import MODELS as MODELS_OF_FIGURE

NAMES = {name: MODELS_OF_FIGURE[column] for name, column in ERRORS.items()}
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


@pytest.fixture(scope="module")
def numbers() -> dict[str, str]:
    """Name -> text of every number of the published tables."""
    return measured_numbers(tables_of_publication())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_shows_the_numbers_of_the_published_tables(
    page: Path, numbers: dict[str, str]
) -> None:
    fresh = with_numbers(TEXTS[page], numbers)
    assert TEXTS[page] == fresh, "run: python -m tools.method_numbers"


def test_every_number_has_a_place_in_a_page(numbers: dict[str, str]) -> None:
    places = re.findall(r"<!-- (\w+) -->", "".join(TEXTS.values()))
    assert sorted(places) == sorted(numbers)


@pytest.mark.parametrize("palette", ["light", "dark"])
def test_the_figure_of_errors_shows_the_numbers_of_the_published_tables(
    palette: str, numbers: dict[str, str]
) -> None:
    figure = (PAGES[0].parent / f"docs/pictures/errors_{palette}.svg").read_text("utf-8")
    for model in ("datasheet", "torchao", "calibrated"):
        errors = numbers[f"error_{model}"].split(" and ")
        titles = re.findall(rf">(\w+), {re.escape(NAMES[model])}: (\S+ %) off<", figure)
        assert titles == list(zip(tables_of_gpus(), errors, strict=True)), "run: make pages"


def test_a_stale_number_is_replaced_and_prose_is_kept() -> None:
    page = "It took <!-- hot -->0.1<!-- / --> of 5 us."
    assert with_numbers(page, {"hot": "0.9"}) == "It took <!-- hot -->0.9<!-- / --> of 5 us."


def test_no_mark_begins_a_line_of_prose() -> None:
    # Markdown takes such a line for a block of HTML, which ends the paragraph.
    for page, text in TEXTS.items():
        lines = re.findall(r"^<!-- \w+ -->.+$", text, re.MULTILINE)
        assert lines == [], page
