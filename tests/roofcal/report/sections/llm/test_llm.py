"""Language models in the report: read, summed up, drawn with their table and their command."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.provenance import commands
from roofcal.report.sections.llm import draw_llm
from tests.roofcal.report.chapters import Shown, analysis_with, plain, shown_of


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


@pytest.fixture(scope="module")
def shown(estimated: Analysis) -> Shown:
    return shown_of(estimated, "llm")


def test_each_cut_is_one_row_with_its_largest_batch(shown: Shown) -> None:
    cuts = shown.tables["llm-cuts"].frame
    assert len(cuts) == 7
    first, without = cuts.iloc[0], cuts.iloc[3]
    assert first["decode_step_s"] == pytest.approx(1e-3 * 1.05)
    assert first["most"] == pytest.approx(20 / 2e-3)
    assert first["most_low"] < first["most"] < first["most_high"]
    assert without["fits"] == "no"
    assert pd.isna(without["most"])
    assert len(shown.files["llm.csv"]) == len(made_up_estimates())


def test_figure_and_chapter_have_the_command(
    estimated: Analysis, shown: Shown, analysis: Analysis
) -> None:
    assert "roofcal llm --run results/nvidia-h200/" in shown.figures["llm"].command
    assert any("roofcal llm" in line and "--out" in line for line in commands(estimated))
    assert not any("roofcal llm" in line for line in commands(analysis)), "without one"


def test_a_line_goes_through_its_batches_on_as_few_gpus_as_hold_its_recipes(shown: Shown) -> None:
    chart = shown.figures["llm"]
    assert [p.title for p in chart.panels] == ["large, 2 GPUs", "small, 1 GPU"]
    assert [entry.value for entry in chart.legend] == ["bf16", "int4"]
    assert [layer.mark for layer in chart.layers] == ["area", "line", "dots"]
    small = chart.rows_of("points", chart.panels[1])
    assert set(small["recipe"]) == {"bf16", "int4"}
    line = small[small["recipe"] == "bf16"]
    points = list(zip(line[chart.x.key], line[chart.y.key], strict=True))
    assert points[0] == pytest.approx((1.05e-3, 1 / 1.05e-3))
    assert points[-1] == pytest.approx((2e-3, 20 / 2e-3))


def test_the_answer_names_the_fastest_per_gpu(shown: Shown) -> None:
    """Rates once were those of all GPUs, which a model on eight of them wins."""
    most = (
        "Most tokens per second and GPU: int4 in 2 models; at best 20,000, by small in int4 on "
        "1 GPU at batch 20."
    )
    assert most in shown.answer
    assert shown.answer.startswith(
        "Least time per token: int4 in 2 models; at best 525 us, by small in int4 on 1 GPU at batch"
    )
    assert shown.answer.endswith("calibrated parts, casts included.")
    table = made_up_estimates()
    wide = table["model"] == "large"
    table.loc[wide, "decode_tokens_per_s"] = 1.5 * table["decode_tokens_per_s"].max()
    picture = draw_llm(table, "")
    assert picture
    assert "at best 20,000, by small in int4 on 1 GPU" in plain(picture.facts)


def test_a_recipe_without_a_line_is_named_with_the_reason() -> None:
    table = made_up_estimates()
    too_large = (table["model"] == "small") & (table["recipe"] == "bf16")
    table.loc[too_large, "decode_step_s"] = None
    picture = draw_llm(table, "")
    assert picture
    assert picture.facts.endswith("no kernel runs it on so many): small in bf16.")


def test_where_nothing_fits_nothing_is_drawn() -> None:
    table = made_up_estimates()
    assert draw_llm(table[table["fits"] == "no"], "") is None
    assert draw_llm(table.iloc[:0], "") is None
    one_batch = table[(table["batch"] == 1) & (table["model"] == "small")]
    picture = draw_llm(one_batch, "")
    assert picture
    assert [panel.title for panel in picture.panels] == ["small, 1 GPU"]
