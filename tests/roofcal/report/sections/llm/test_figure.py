"""Throughput against latency drawn: a panel per model, a line per recipe, on the right GPUs."""

import pytest

from roofcal.report.kit.pictures import Picture
from roofcal.report.sections.llm import draw_llm
from tests.roofcal.report.drawn import charted, drawn
from tests.roofcal.report.estimates import made_up_estimates


@pytest.fixture(scope="module")
def picture() -> Picture:
    return drawn(draw_llm(made_up_estimates()))


def test_each_model_has_a_panel_on_as_few_gpus_as_hold_its_recipes(picture: Picture) -> None:
    assert [p.title for p in charted(picture).panels] == ["large, 2 GPUs", "small, 1 GPU"]


def test_a_line_goes_through_its_batches_within_its_interval(picture: Picture) -> None:
    chart = charted(picture)
    assert [layer.mark for layer in chart.layers] == ["area", "line", "dots"]
    small = chart.rows_of("points", chart.panels[1])
    assert set(small["recipe"]) == {"bf16", "int4"}
    line = small[small["recipe"] == "bf16"]
    points = list(zip(line[chart.x.key], line[chart.y.key], strict=True))
    assert points[0] == pytest.approx((1.05e-3, 1 / 1.05e-3))
    assert points[-1] == pytest.approx((2e-3, 20 / 2e-3))


def test_every_recipe_is_in_the_legend_once(picture: Picture) -> None:
    assert [entry.value for entry in charted(picture).legend] == ["bf16", "int4"]


def test_facts_name_the_fastest(picture: Picture) -> None:
    facts = picture.facts.replace("\N{NO-BREAK SPACE}", " ")
    most = "2 models. Most tokens per second and GPU: 20,000 (small in int4 on 1 GPU, batch 20)"
    assert most in facts
    least = "least time per token: 525 us (small in int4 on 1 GPU)"
    assert least in facts.replace("\N{MICRO SIGN}", "u")


def test_rates_on_different_numbers_of_gpus_are_compared_per_gpu() -> None:
    """It once was the sum of all GPUs, which a model on eight of them wins."""
    table = made_up_estimates()
    wide = table["model"] == "large"
    table.loc[wide, "decode_tokens_per_s"] = 1.5 * table["decode_tokens_per_s"].max()
    facts = drawn(draw_llm(table)).facts.replace("\N{NO-BREAK SPACE}", " ")
    assert "Most tokens per second and GPU: 20,000 (small in int4 on 1 GPU, batch 20)" in facts


def test_where_nothing_fits_nothing_is_drawn() -> None:
    table = made_up_estimates()
    assert draw_llm(table[table["fits"] == "no"]) is None
    assert draw_llm(table.iloc[:0]) is None
