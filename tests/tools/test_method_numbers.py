"""The measured numbers of README.md, its figure and docs/method.md are those of the tables."""

import re
from pathlib import Path

import pandas as pd
import pytest

from roofcal.models.registry import MODELS
from tools.method_numbers import (
    CONTENDERS,
    ERRORS,
    PAGES,
    contest_table,
    judged_text,
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


def test_the_judge_speaks_of_products_of_its_last_seed_and_not_at_all_without_records(
    tmp_path: Path,
) -> None:
    assert judged_text([tmp_path]) == ""
    row: dict[str, object] = {"device": "nvidia-h100-sxm", "op": "gemm", "model": "calibrated"}
    row |= dict.fromkeys(("recipe", "provider", "regime"), "all")
    row |= {"count": 144, "mape": 0.0581, "p95_abs_error": 0.19}
    others: list[dict[str, object]] = [
        {"seed": 1, "mape": 0.5},
        {"seed": 2, "op": "cast"},
        {"seed": 2, "recipe": "bf16"},
    ]
    rows = [row | others[0], row | {"seed": 2}, *(row | other for other in others[1:])]
    pd.DataFrame(rows).to_csv(tmp_path / "judged_errors.csv", index=False)
    assert judged_text([tmp_path]) == (
        " On layers that no study lists, measured apart, roofcal is off by 5.8 % on an H100 "
        "(144 products, 95th percentile 19 %)."
    )
    pd.DataFrame([row | {"count": 0}]).to_csv(tmp_path / "judged_errors.csv", index=False)
    assert judged_text([tmp_path]) == ""


def test_the_contest_shows_every_model_that_a_judge_judged(tmp_path: Path) -> None:
    """Of the seed that was measured last, op by op; all points of an op alone."""
    assert contest_table([tmp_path]) == ""
    models = [*MODELS, "torchao_fitted", "ten_constants"]
    assert set(CONTENDERS) == set(models)
    row: dict[str, object] = {"device": "nvidia-h200", "seed": 3, "op": "gemm", "count": 7}
    row |= {"p95_abs_error": 0.5} | dict.fromkeys(("recipe", "provider", "regime"), "all")
    errors = [row | {"model": name, "mape": i / 10} for i, name in enumerate(models, start=1)]
    others = [row | {"seed": 1}, row | {"op": "cast", "count": 4}, row | {"recipe": "bf16"}]
    rows = [other | {"model": "calibrated", "mape": 0.9} for other in others]
    pd.DataFrame([rows[0], *errors, *rows[1:]]).to_csv(tmp_path / "judged_errors.csv", index=False)
    head, _, products, casts = contest_table([tmp_path]).strip().splitlines()
    assert head == f"| GPU | op | points | {' | '.join(CONTENDERS.values())} |"
    places = {name: 10.0 * (1 + models.index(name)) for name in CONTENDERS}
    cells = [f"{places[name]:.1f} (50) %" for name in CONTENDERS]
    assert products == f"| H200 | gemm | 7 | {' | '.join(cells)} |"
    assert casts == f"| H200 | cast | 4 | {' | ' * (len(cells) - 1)}90.0 (50) % |"


def test_no_mark_begins_a_line_of_prose() -> None:
    # Markdown takes such a line for a block of HTML, which ends the paragraph.
    for page, text in TEXTS.items():
        lines = re.findall(r"^<!-- \w+ -->.+$", text, re.MULTILINE)
        assert lines == [], page
