"""Sections on speed: speed-ups, roofs, break-even, energy, language models."""

from itertools import product as pairs

import pandas as pd
import pytest

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.charts import Picture
from roofcal.report.sections.breakeven import draw_breakeven
from roofcal.report.sections.energy import recipes_by_energy, sentences
from roofcal.report.sections.llm import draw_llm
from roofcal.report.sections.speedup import draw_speedups
from tests.paths import ROOT
from tests.roofcal.report.chapters import Shown, plain, shown_of


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    return shown_of(analysis, "speedup")


def maps_of(analysis: Analysis, *shapes: tuple[int, int, int]) -> list[Picture]:
    """The maps of an int8 product that is twice as fast at each of these shapes."""
    rows = pd.DataFrame(shapes, columns=["m", "n", "k"])
    rows = rows.assign(op="gemm", recipe="int8", provider="cublaslt")
    frame = analysis.frames["gemm"].iloc[[0] * len(rows)].reset_index(drop=True)
    table = rows.assign(speedup=2.0, speedup_low=1.9, speedup_high=2.1, baseline_s=1e-3)
    return draw_speedups(table, frame.assign(**rows))


def test_every_ratio_is_in_one_cell(shown: Shown, analysis: Analysis) -> None:
    assert list(shown.figures) == ["speedup_cubes", "speedup_by_tokens", "speedup_by_shape"]
    cells = [
        picture.rows_of("points", panel)["label"]
        for picture in shown.figures.values()
        for panel in picture.panels
    ]
    ratios = analysis.speedups["gemm"]["speedup"]
    assert sorted(pd.concat(cells)) == sorted(f"{value:.2f}" for value in ratios)
    assert shown.tables["speedups-gemm"].total == len(ratios)


def test_the_sizes_that_most_shapes_have_are_drawn_and_many_weights_thinned(
    analysis: Analysis,
) -> None:
    (many,) = maps_of(analysis, *[(m, 64 * n, 64) for m, n in pairs((1, 2, 3), range(2, 302))])
    assert "60 of 300 weights and 3 of 3 sizes m are drawn." in many.facts
    common = [(7, 64 * n, 64) for n in (1, 2, 3)]
    rare = [(100 + m, n, 64) for n in (64, 128) for m in range(40)]
    (picture, *_) = maps_of(analysis, *common, *rare)
    sizes = sorted(set(picture.tables["points"]["m"]))
    assert (sizes[0], len(sizes)) == (7, 8)
    assert "8 of 41 sizes m" in picture.facts


def test_without_datasheet_and_calibration_the_points_remain(bare_analysis: Analysis) -> None:
    shown = shown_of(bare_analysis, "roofline")
    chart = shown.figures["roofline"]
    assert chart.tables["roofs"].empty
    assert len(chart.tables["points"])
    assert shown.answer == "Cannot be told here: the run is not calibrated."


def test_a_break_even_map_without_casts_says_so_and_slow_sums_are_in_the_table_alone() -> None:
    file = next((ROOT / "reports/published/nvidia-h200").glob("*/breakeven.csv"))
    table = pd.read_csv(file, keep_default_na=False)
    without = draw_breakeven(table[table["casts"] == "none"], "")
    assert without is not None
    assert " linears without casts: " in without.facts
    assert draw_breakeven(table.assign(recipe="fp8_axiswise_slow_accum"), "") is None


def point(recipe: str, energy_j: float, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {"op": "gemm", "recipe": recipe, "provider": "cublaslt"}
    fields |= {"shape": "8 x 8 x 8", "protocol": "graph, cold", "distribution": "normal"}
    fields |= {"repeat": 0, "sm_clock_hz": 1.4e9, "energy_j": energy_j}
    fields |= {"energy_j_per_flop": energy_j / 1024, "counter_over_power": -0.02}
    return fields | changes


def test_recipes_stand_by_their_energy_and_over_bf16_of_equal_shapes() -> None:
    points = pd.DataFrame(
        [
            point("bf16", 2.0),
            point("fp8_axiswise", 1.0),
            point("bf16", 3.0, shape="16 x 8 x 8"),
            point("fp8_axiswise", 2.4, shape="16 x 8 x 8"),
            point("fp8_axiswise", 0.1, distribution="zeros"),  # zeros take less: no comparison
        ]
    )
    recipes = recipes_by_energy(points)
    assert recipes["recipe"].tolist() == ["fp8_axiswise", "bf16"]
    assert recipes["over_bf16"].tolist() == pytest.approx([0.65, 1.0])
    assert recipes["energy_j_per_flop"].iloc[0] == 1.0 / 1024
    best, power, counter = sentences(points, recipes)
    assert best.startswith("fp8_axiswise in gemm takes the least energy")
    assert "not at the wall" in power
    assert "counter and integrated power differ by 2.0" in counter


def test_rates_of_language_models_are_compared_per_gpu() -> None:
    """Once they were those of all GPUs, which a model on several of them wins."""
    rows = [("small", 1, 1e-3, 20e3), ("large", 2, 4e-3, 30e3)]
    columns = ["model", "tensor_parallel", "decode_step_s", "decode_tokens_per_s"]
    table = pd.DataFrame(rows, columns=columns)
    table = table.assign(recipe="int4", pipeline_parallel=1, batch=1, first_token_s=0.1)
    picture = draw_llm(table, "")
    assert picture
    assert [panel.title for panel in picture.panels] == ["large, 2 GPUs", "small, 1 GPU"]
    facts = plain(picture.facts)
    assert "int4 in 2 models; at best 20,000, by small in int4 on 1 GPU at batch 1." in facts
    assert draw_llm(table.assign(decode_step_s=None), "") is None, "nothing fits"
