"""The measured numbers in docs/method.md are those of the published tables."""

import re

import pytest

from tools.method_numbers import PAGE, measured_numbers, tables_of_publication, with_numbers

NUMBERS = measured_numbers(tables_of_publication())


def test_the_page_shows_the_numbers_of_the_published_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_numbers(page, NUMBERS), "run: python tools/method_numbers.py"


def test_every_number_has_a_place_in_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- (\w+) -->", page)) == sorted(NUMBERS)


def test_a_stale_number_is_replaced_and_prose_is_kept() -> None:
    page = "It took <!-- hot -->0.1<!-- / --> of 5 us."
    assert with_numbers(page, {"hot": "0.9"}) == "It took <!-- hot -->0.9<!-- / --> of 5 us."


def test_a_mark_without_a_number_is_an_error() -> None:
    with pytest.raises(KeyError, match="cold"):
        with_numbers("<!-- cold -->1<!-- / -->", {})
