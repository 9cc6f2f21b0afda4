"""Narrow weights in the report: who wins and how surely, which roof binds, the two errors."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.blocks import FigureBlock, Prose, Table
from roofcal.report.sections.mixed import tables as section
from tests.roofcal.report.chapters import blocks_of, csv_tables
from tests.roofcal.report.narrow import G64, G128, SIZES, TOKENS, narrow_run


@pytest.fixture(scope="module")
def narrowed(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    """The made-up run with narrow weights."""
    return analyse(load_run(narrow_run().write(tmp_path_factory.mktemp("narrow"))), h200)


def test_formats_are_those_of_the_weights() -> None:
    formats = [section.weight_format(r) for r in ("bf16", "fp8_weight_only", "fp8_axiswise", G64)]
    assert formats == ["bf16", "fp8", "fp8", "int4"]


def test_each_shape_has_its_fastest_format_and_uncertain_ones_are_marked(
    narrowed: Analysis,
) -> None:
    table = section.winners_table(narrowed.frames["mixed_gemm"])
    assert [column.key for column in section.WINNERS] == [
        c for c in table if c not in ("low_s", "high_s")
    ]
    measured = table[(table["kind"] == "measured") & (table["n"] == 3584)]
    plain = measured[measured["mode"] == "plain"].set_index("m")
    assert plain["format"].to_dict() == {1: "int4", 16: "int4", 64: "fp8", 256: "fp8"}
    assert plain["class"].to_dict() == {1: "sure", 16: "sure", 64: "uncertain", 256: "sure"}
    assert plain.loc[1, "recipe"] == G128
    assert plain.loc[1, "next_recipe"] == "fp8_tensorwise"
    assert plain.loc[1, "ratio"] == pytest.approx(3 / 1.8)


def test_chained_launches_are_a_mode_of_their_own(narrowed: Analysis) -> None:
    table = section.winners_table(narrowed.frames["mixed_gemm"])
    assert "triton_chained" not in set(table.loc[table["mode"] == "plain", "provider"])
    chained = table[(table["mode"] == "chained") & (table["kind"] == "measured")]
    assert len(chained) == len(SIZES) * len(TOKENS)
    int4 = chained[chained["format"] == "int4"]
    assert set(int4["provider"]) == {"triton_chained"}
    assert set(int4["m"]) == {1, 16, 64}


def test_overlapping_predictions_are_uncertain(narrowed: Analysis) -> None:
    table = section.winners_table(narrowed.frames["mixed_gemm"])
    plain = table[(table["kind"] == "predicted") & (table["mode"] == "plain")]
    assert set(plain.loc[plain["m"] == 64, "class"]) == {"uncertain"}
    assert set(plain.loc[plain["m"] == 1, "class"]) == {"sure"}
    assert plain.loc[plain["m"] == 1, "seconds"].iloc[0] == pytest.approx(
        1.05 * 1.8e-6 * 3584 * 8192 / 1e7
    )


def test_each_roof_has_its_range_of_tokens(narrowed: Analysis) -> None:
    calibration = narrowed.run.calibration
    assert section.pairs_with_roofs(calibration) == [("triton", G64), ("tinygemm", G64)]
    table = section.roofs_table(narrowed.frames["mixed_gemm"], calibration)
    assert [column.key for column in section.ROOF_COLUMNS] == list(table.columns)
    large = table[table["n"] == 28672]
    ours, theirs = (large[large["provider"] == name] for name in ("triton", "tinygemm"))
    assert ours["bound_by"].iloc[0] == "memory"
    assert ours["bound_by"].iloc[-1] == "matrix unit and activations"
    assert set(theirs["bound_by"]) == {"issue slots"}
    for _, spans in table.groupby(["provider", "n"]):
        assert spans["m_from"].iloc[0] == 1
        assert spans["m_to"].iloc[-1] == 256
        assert list(spans["m_from"])[1:] == [m + 1 for m in spans["m_to"]][:-1]


def test_kernel_and_format_have_errors_of_their_own(narrowed: Analysis) -> None:
    table = section.errors_table(narrowed.frames["mixed_gemm"])
    assert [column.key for column in section.ERRORS] == list(table.columns)
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
    figures = [block.id for block in blocks if isinstance(block, FigureBlock)]
    names = ("crossover", "bandwidth", "roofs")
    assert figures == [f"x-figure-mixed_{name}-mixed_gemm" for name in names]
    tables = [block.source for block in blocks if isinstance(block, Table)]
    assert tables == ["mixed_winners.csv", "mixed_roofs.csv", "mixed_errors.csv"]
    assert set(tables) <= set(dict(csv_tables(narrowed)))


def test_what_was_not_measured_is_said(tmp_path: Path, h200: DeviceSpec) -> None:
    run = narrow_run(("cublaslt",), roofs=False).write(tmp_path)
    blocks = blocks_of(analyse(load_run(run), h200), "mixed")
    quiet = [b.text for b in blocks if isinstance(b, Prose) and b.quiet]
    assert quiet == [
        "No shape has a time in int4 and in another format: no crossover map.",
        "No roofs of narrow weights: probe_mixed_gemm was not calibrated.",
    ]


def test_a_run_without_narrow_weights_has_no_such_section(analysis: Analysis) -> None:
    assert blocks_of(analysis, "mixed") == []
    assert not any(name.startswith("mixed") for name, _ in csv_tables(analysis))


def test_points_without_a_time_win_nothing(narrowed: Analysis) -> None:
    frame = narrowed.frames["mixed_gemm"]
    hot = frame.assign(cache="hot")
    assert section.winners_table(hot).empty
    assert section.errors_table(hot).empty
    assert isinstance(section.roofs_table(hot, None), pd.DataFrame)


def test_every_column_has_a_name_for_the_button_that_sorts_it() -> None:
    every = (*section.WINNERS, *section.ROOF_COLUMNS, *section.ERRORS)
    assert [column.key for column in every if not column.label.strip()] == []


def test_roofs_begin_with_the_tokens_that_a_provider_takes() -> None:
    recipe = "int4_groupwise_g128"
    begins = [section.tokens_of_pair(name, recipe)[0] for name in ("triton", "triton_specialised")]
    assert begins == [1, 17]
    assert section.tokens_of_pair("triton_specialised", recipe)[-1] == 256
