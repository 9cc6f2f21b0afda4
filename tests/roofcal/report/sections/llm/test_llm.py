"""Language models in the report: read, summed up, drawn with their table and their command."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.kit.charts import Picture
from roofcal.report.sections.llm import COLUMNS, draw_llm, one_row_per_cut
from tests.roofcal.report.chapters import analysis_with, csv_tables, figure_and_table
from tests.roofcal.report.drawn import drawn, plain


def made_up_estimates() -> pd.DataFrame:
    """`small` fits one GPU in both recipes, `large` fits two in bf16 and one in int4 alone."""
    rows = [
        *_line("small", "bf16", 1, 1e-3),
        *_line("small", "int4", 1, 0.5e-3),
        *_line("small", "bf16", 2, 0.8e-3, pipeline=2),
        _cut("large", "bf16", 1) | {"fits": "no", "batch": 1, "largest_batch": 0},
        *_line("large", "int4", 1, 2e-3),
        *_line("large", "bf16", 2, 4e-3),
        *_line("large", "int4", 2, 1.5e-3),
    ]
    return pd.DataFrame(rows)


def write_estimates(folder: Path) -> None:
    made_up_estimates().to_csv(folder / "llm.csv", index=False)


def _line(
    model: str, recipe: str, tensor: int, step: float, pipeline: int = 1
) -> Iterator[dict[str, object]]:
    for batch in (1, 4, 16, 20):
        time, row = step * (1 + batch / 20), _cut(model, recipe, tensor, pipeline)
        row |= {"fits": "yes", "batch": batch, "largest_batch": 20, "decode_bound_by": "dram"}
        for end, factor in (("", 1.0), ("_low", 0.9), ("_high", 1.1)):
            row[f"first_token{end}_s"] = 0.1 * batch * factor
            row[f"decode_step{end}_s"] = time * factor
            row[f"decode_tokens_per_s{end}"] = batch / time * factor
        yield row


def _cut(model: str, recipe: str, tensor: int, pipeline: int = 1) -> dict[str, object]:
    names = ("model", "recipe", "tensor_parallel", "pipeline_parallel", "weight_bytes_per_gpu")
    values = (model, recipe, tensor, pipeline, 1.6e10 / tensor)
    return dict(zip(names, values, strict=True))


@pytest.fixture(scope="module")
def estimated(folder: Path, h200: DeviceSpec, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The made-up run with estimates."""
    return analysis_with(write_estimates, folder, h200, tmp_path_factory.mktemp("estimated"))


def test_each_cut_is_one_row_with_its_largest_batch() -> None:
    cuts = one_row_per_cut(made_up_estimates())
    assert len(cuts) == 7
    first, without = cuts.iloc[0], cuts.iloc[3]
    assert first["decode_step_s"] == pytest.approx(1e-3 * 1.05)
    assert first["most"] == pytest.approx(20 / 2e-3)
    assert first["most_low"] < first["most"] < first["most_high"]
    assert without["fits"] == "no"
    assert pd.isna(without["most"])
    assert {column.key for column in COLUMNS} <= set(cuts.columns)


def test_the_section_has_figure_table_and_command(estimated: Analysis, analysis: Analysis) -> None:
    figure, table = figure_and_table(estimated, "llm", "llm.csv")
    assert "python -m roofcal llm --run results/nvidia-h200/" in figure.command
    assert table.total == 7
    assert len(dict(csv_tables(estimated))["llm.csv"]) == len(made_up_estimates())
    assert any("roofcal llm" in line and "--out" in line for line in commands(estimated))
    assert not any("roofcal llm" in line for line in commands(analysis)), "without one"


@pytest.fixture(scope="module")
def picture() -> Picture:
    return drawn(draw_llm(made_up_estimates(), ""))


def test_a_line_goes_through_its_batches_on_as_few_gpus_as_hold_its_recipes(
    picture: Picture,
) -> None:
    chart = drawn(picture)
    assert [p.title for p in chart.panels] == ["large, 2 GPUs", "small, 1 GPU"]
    assert [entry.value for entry in chart.legend] == ["bf16", "int4"]
    assert [layer.mark for layer in chart.layers] == ["area", "line", "dots"]
    small = chart.rows_of("points", chart.panels[1])
    assert set(small["recipe"]) == {"bf16", "int4"}
    line = small[small["recipe"] == "bf16"]
    points = list(zip(line[chart.x.key], line[chart.y.key], strict=True))
    assert points[0] == pytest.approx((1.05e-3, 1 / 1.05e-3))
    assert points[-1] == pytest.approx((2e-3, 20 / 2e-3))


def test_facts_name_the_fastest(picture: Picture) -> None:
    facts = plain(picture.facts)
    most = "2 models. Most tokens per second and GPU: 20,000 (small in int4 on 1 GPU, batch 20)"
    assert most in facts
    least = "least time per token: 525 us (small in int4 on 1 GPU)"
    assert least in facts


def test_rates_on_different_numbers_of_gpus_are_compared_per_gpu() -> None:
    """It once was the sum of all GPUs, which a model on eight of them wins."""
    table = made_up_estimates()
    wide = table["model"] == "large"
    table.loc[wide, "decode_tokens_per_s"] = 1.5 * table["decode_tokens_per_s"].max()
    facts = drawn(draw_llm(table, "")).facts.replace("\N{NO-BREAK SPACE}", " ")
    assert "Most tokens per second and GPU: 20,000 (small in int4 on 1 GPU, batch 20)" in facts


def test_where_nothing_fits_nothing_is_drawn() -> None:
    table = made_up_estimates()
    assert draw_llm(table[table["fits"] == "no"], "") is None
    assert draw_llm(table.iloc[:0], "") is None
