"""Narrow weights in the report: who wins and how surely, which roof binds, the two errors."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Picture
from roofcal.report.kit.numbers import scaled
from roofcal.report.sections import mixed as section
from roofcal.report.sections.mixed import (
    answer_sentences,
    draw_bandwidth,
    draw_crossover,
    draw_roofs,
)
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.drawn import drawn
from tests.roofcal.report.narrow import G64, G128, SIZES, TOKENS, narrow, narrow_run, true_time


@pytest.fixture(scope="module")
def rows(narrowed: Analysis) -> pd.DataFrame:
    return section.rows_with_format(narrowed.frames["mixed_gemm"])


@pytest.fixture(scope="module")
def winners(rows: pd.DataFrame) -> pd.DataFrame:
    return section.winners_table(rows)


def test_each_shape_has_its_fastest_format_and_uncertain_ones_are_marked(
    winners: pd.DataFrame,
) -> None:
    measured = winners[(winners["kind"] == "measured") & (winners["n"] == 3584)]
    plain = measured[measured["mode"] == "plain"].set_index("m")
    assert plain["format"].to_dict() == {1: "int4", 16: "int4", 64: "fp8", 256: "fp8"}
    assert plain["class"].to_dict() == {1: "sure", 16: "sure", 64: "uncertain", 256: "sure"}
    assert plain.loc[1, "recipe"] == G128
    assert plain.loc[1, "next_recipe"] == "fp8_tensorwise"
    assert plain.loc[1, "ratio"] == pytest.approx(3 / 1.8)


def test_chained_launches_are_a_mode_of_their_own(winners: pd.DataFrame) -> None:
    assert "triton_chained" not in set(winners.loc[winners["mode"] == "plain", "provider"])
    chained = winners[(winners["mode"] == "chained") & (winners["kind"] == "measured")]
    assert len(chained) == len(SIZES) * len(TOKENS)
    int4 = chained[chained["format"] == "int4"]
    assert set(int4["provider"]) == {"triton_chained"}
    assert set(int4["m"]) == {1, 16, 64}


def test_overlapping_predictions_are_uncertain(winners: pd.DataFrame) -> None:
    plain = winners[(winners["kind"] == "predicted") & (winners["mode"] == "plain")]
    assert set(plain.loc[plain["m"] == 64, "class"]) == {"uncertain"}
    assert set(plain.loc[plain["m"] == 1, "class"]) == {"sure"}
    assert plain.loc[plain["m"] == 1, "seconds"].iloc[0] == pytest.approx(
        1.05 * 1.8e-6 * 3584 * 8192 / 1e7
    )


def test_each_roof_has_its_range_of_tokens(narrowed: Analysis, rows: pd.DataFrame) -> None:
    calibration = narrowed.run.calibration
    assert section.pairs_with_roofs(calibration) == [("triton", G64), ("tinygemm", G64)]
    table = section.roofs_table(rows, calibration)
    large = table[table["n"] == 28672]
    ours, theirs = (large[large["provider"] == name] for name in ("triton", "tinygemm"))
    assert ours["bound_by"].iloc[0] == "memory"
    assert ours["bound_by"].iloc[-1] == "matrix unit and activations"
    assert set(theirs["bound_by"]) == {"issue slots"}
    for _, spans in table.groupby(["provider", "n"]):
        assert spans["m_from"].iloc[0] == 1
        assert spans["m_to"].iloc[-1] == 256
        assert list(spans["m_from"])[1:] == [m + 1 for m in spans["m_to"]][:-1]


def test_kernel_and_format_have_errors_of_their_own(rows: pd.DataFrame) -> None:
    table = section.errors_table(rows)
    assert list(table["recipe"].drop_duplicates()) == ["bf16", "fp8_tensorwise", G64, G128]
    row = table[(table["recipe"] == G64) & (table["provider"] == "triton")].iloc[0]
    assert (row["points"], row["kernel_worst"]) == (8, 0.256)
    assert row["kernel_median"] == pytest.approx(0.04)
    assert (row["quantisation_median"], row["quantisation_worst"]) == (0.1, 0.1)


def test_the_section_has_answer_figures_and_tables(narrowed: Analysis) -> None:
    blocks = blocks_of(narrowed, "mixed")
    prose = [block for block in blocks if isinstance(block, Prose)]
    assert len(prose) == 4
    assert not any(block.quiet for block in prose)
    figures = [block.id for block in blocks if isinstance(block, Picture)]
    names = ("crossover", "bandwidth", "roofs")
    assert figures == [f"x-figure-mixed_{name}-mixed_gemm" for name in names]
    tables = [block.source for block in blocks if isinstance(block, Table)]
    assert tables == ["mixed_winners.csv", "mixed_roofs.csv", "mixed_errors.csv"]


def test_what_was_not_measured_is_said(tmp_path: Path, h200: DeviceSpec) -> None:
    run = narrow_run(("cublaslt",), roofs=False).write(tmp_path)
    blocks = blocks_of(analyse(load_run(run), h200), "mixed")
    quiet = [b.text for b in blocks if isinstance(b, Prose) and b.quiet]
    assert quiet == [
        "No shape has a time in int4 and in another format: no crossover map.",
        "No roofs of narrow weights: probe_mixed_gemm was not calibrated.",
    ]


def test_points_without_a_time_win_nothing(narrowed: Analysis) -> None:
    frame = narrowed.frames["mixed_gemm"]
    hot = section.rows_with_format(frame.assign(cache="hot"))
    assert section.winners_table(hot).empty
    assert section.errors_table(hot).empty
    assert isinstance(section.roofs_table(hot, None), pd.DataFrame)


def test_roofs_begin_with_the_tokens_that_a_provider_takes() -> None:
    recipe = "int4_groupwise_g128"
    begins = [section.tokens_of_pair(name, recipe)[0] for name in ("triton", "triton_specialised")]
    assert begins == [1, 17]
    assert section.tokens_of_pair("triton_specialised", recipe)[-1] == 256


SMALL = "3,584 \N{MULTIPLICATION SIGN} 8,192"


def test_a_line_per_recipe_and_provider_is_bytes_over_time(
    narrowed: Analysis, rows: pd.DataFrame
) -> None:
    chart = drawn(draw_bandwidth(rows, narrowed.run.calibration, narrowed.spec))
    (panel,) = [one for one in chart.panels if one.title == f"weights {SMALL}"]
    curves = dict(list(chart.rows_of("points", panel).groupby("series")))
    assert len(curves) == 3  # bf16, fp8 and the int4 of the largest groups
    assert all(list(curve["m"]) == list(TOKENS) for curve in curves.values())
    point = narrow(1, 3584, 8192, G128)
    moved = float(rows.loc[rows["point_id"] == point.point_id, "dram_bytes"].iloc[0])
    firsts = [float(curve["achieved_bytes_per_s"].iloc[0]) for curve in curves.values()]
    assert moved / true_time(point) in [pytest.approx(first) for first in firsts]
    assert G128 in chart.facts


def test_roofs_and_bandwidth_are_drawn_only_of_what_is_there(
    narrowed: Analysis, rows: pd.DataFrame
) -> None:
    assert G64 in drawn(draw_roofs(rows, narrowed.run.calibration)).facts
    assert draw_roofs(rows, None) is None
    assert draw_roofs(rows[rows["m"] < 64], narrowed.run.calibration) is None
    assert draw_bandwidth(rows[rows["recipe"] == "bf16"], None, None) is None
    assert draw_bandwidth(rows[:0], None, None) is None


def answered(folder: Path, spec: DeviceSpec, *without: str, roofs: bool = True) -> list[str]:
    analysis: Analysis = narrow_run(without, roofs=roofs).analysed(folder, spec)
    rows = section.rows_with_format(analysis.frames["mixed_gemm"])
    return answer_sentences(rows, analysis.run.calibration)


def shown(recipe: str, provider: str) -> str:
    return scaled(true_time(narrow(16, 3584, 8192, recipe, provider)), "s")


def test_the_sentences_hold_the_records_of_the_point(tmp_path: Path, h200: DeviceSpec) -> None:
    first, second, third = answered(tmp_path, h200)
    for recipe, provider in (
        ("fp8_tensorwise", "cublaslt"),
        (G64, "tinygemm"),
        ("bf16", "cublaslt"),
    ):
        assert shown(recipe, provider) in first
    assert "3.00\N{MULTIPLICATION SIGN} as long" in first
    assert "0.54\N{MULTIPLICATION SIGN} the bytes of fp8" in first
    assert "at the calibrated copy bandwidth" in first
    assert "tinygemm is bound by the issue slots of dequantisation" in second
    assert scaled(3584 * 8192 / 8e11, "s") in second
    assert "by a plain launch" in third
    assert shown(G64, "triton") in third
    assert f"apart from that, {shown(G64, 'triton_chained')}" in third
    assert "1.25\N{MULTIPLICATION SIGN} as fast as fp8" in third


@pytest.mark.parametrize(
    ("without", "number", "says"),
    [
        ("cublaslt", 0, "Not measured: fp8_tensorwise at weights"),
        ("tinygemm", 0, "int4 by another library was not measured"),
        ("tinygemm", 1, "none was both measured at this point and calibrated"),
        ("triton", 2, "Not measured: kernels.int4_gemm"),
        ("triton_chained", 2, "was not measured by chained launches"),
    ],
)
def test_what_the_records_lack_is_said(
    tmp_path: Path, h200: DeviceSpec, without: str, number: int, says: str
) -> None:
    assert says in answered(tmp_path, h200, without)[number]


def test_without_roofs_no_cause_is_given(tmp_path: Path, h200: DeviceSpec) -> None:
    _, second, third = answered(tmp_path, h200, roofs=False)
    assert second.startswith("Which roof other int4 kernels meet is not known here")
    assert "bound by" not in third


def test_a_cell_says_its_format_in_words_and_marks_doubt_twice(winners: pd.DataFrame) -> None:
    chart = draw_crossover(winners)
    assert "measured, plain launches: fp8 50" in chart.facts
    assert "of 8 shapes, 25" in chart.facts
    launches = ("plain launches", "int4 chained, others plain")
    titles = {f"{kind}, {how}" for kind in ("measured", "predicted") for how in launches}
    assert {panel.title for panel in chart.panels} == titles
    cells = chart.rows_of("points", chart.panels[0])
    assert list(cells["label"])[:4] == ["int4", "int4", "fp8?", "fp8"]
    assert [layer.mark for layer in chart.layers] == ["cells", "hatched"]
    assert list(chart.rows_of("uncertain", chart.panels[0])["m"]) == [64, 64]
