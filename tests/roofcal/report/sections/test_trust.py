"""Sections on trust: constants, errors of predictions, points faster than a roof, claims."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import transferred_model
from roofcal.core.records import PlanPoint, Protocol
from roofcal.points.run import Run, load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.prediction_errors import residuals
from roofcal.report.kit.blocks import Table
from roofcal.report.sections import prediction_errors
from roofcal.report.sections.constants import COLUMNS, constants_table
from tests.roofcal.claim_ledgers import SPEEDUP, entries
from tests.roofcal.report.chapters import Shown, blocks_of, plain, shown_of
from tests.roofcal.report.synthetic import (
    COPY,
    GPU,
    MadeUpRun,
    add_constants,
    product,
    samples_around,
    stream,
)
from tests.roofcal.report.transferred import OTHER_TORCH


@pytest.fixture
def made_up() -> MadeUpRun:
    run = MadeUpRun()
    add_constants(run, {"bf16": 600e12, "fp8_axiswise": 1000e12})
    return run


def test_each_constant_stands_beside_its_datasheet_figure(
    made_up: MadeUpRun, h200: DeviceSpec
) -> None:
    table = constants_table(made_up.calibration(), h200).set_index("name")

    copy = table.loc["dram_copy_bytes_per_s"]
    assert (copy["datasheet"], copy["fraction"]) == (4.8e12, pytest.approx(COPY / 4.8e12))
    fp8 = table.loc["gemm.cublaslt.fp8_axiswise.ceiling_flops_per_s"]
    assert (fp8["datasheet"], fp8["fraction"]) == (1979e12, pytest.approx(1000 / 1979))
    assert table.loc["gemm.cublaslt.bf16.sustained_power_w", "datasheet"] == 700.0
    assert (fp8["ci95_low"], fp8["ci95_high"]) == pytest.approx((980e12, 1020e12))
    assert list(dict.fromkeys(table["group"])) == [
        "device",
        "cublaslt bf16",
        "cublaslt fp8_axiswise",
    ]
    alone = constants_table(made_up.calibration(), None)
    assert len(alone) == len(made_up.constants)
    assert alone[["datasheet", "fraction"]].isna().all(axis=None)


def test_a_constant_without_a_description_is_shown_by_its_name(made_up: MadeUpRun) -> None:
    made_up.constant("gemm.cublaslt.bf16.brand_new_s", 1e-6, "s")
    made_up.constant("odd_thing", 3.0, "1")

    labels = constants_table(made_up.calibration(), None).set_index("name")["label"]

    assert labels["gemm.cublaslt.bf16.brand_new_s"] == "brand new s"
    assert labels["odd_thing"] == "odd thing"


def test_an_empty_calibration_is_an_empty_table() -> None:
    assert list(constants_table(MadeUpRun().calibration(), None)) == list(COLUMNS)


def test_other_calibrations_are_drawn_under_their_labels_and_never_the_best(
    transferred: Analysis,
) -> None:
    frame = transferred.frames["gemm"]
    figures = shown_of(transferred, "prediction-errors", gemm=frame).figures
    tabs = {plain(panel.choice) for panel in figures["measured_against_predicted"].panels}
    assert {"calibrated of torch2.0.1: 2.0 %", "calibrated of driver123.45: 40.0 %"} <= tabs
    assert not any("calibrated@" in figure.facts for figure in figures.values())

    errors = residuals(frame)
    name = transferred_model(OTHER_TORCH.environment_id)
    assert prediction_errors.models_by_error(errors)[-1] == name
    assert prediction_errors.best_model(errors) == "calibrated"
    assert prediction_errors.best_model(errors[errors["model"] == name]) == name, (
        "there is no other"
    )
    facts = figures["error_by_regime"].facts
    assert "The model with the least error is calibrated;" in facts
    assert "highest in regime decode, 10.0" in facts


def test_without_records_of_a_judge_there_is_no_section(analysis: Analysis) -> None:
    assert shown_of(analysis, "judged-layers") == Shown()


BIG = (8192, 8192, 8192)
PEAK_S = 2 * 8192**3 / 989.5e12
CEILING_S = 2 * 8192**3 / (600e12 * 1.02)
CACHE = 60 << 20
BOTH, CALIBRATED = ["datasheet", "calibrated"], ["calibrated"]
WITHIN = {"samples": samples_around(PEAK_S * 0.999, spread=0.01)}  # reaches above the peak
WARM = {"rotating_bytes": 2 * CACHE}
ZEROS = Protocol(distribution="zeros")


@pytest.mark.parametrize(
    ("measured", "bounds", "cause"),
    [
        ((product(*BIG), PEAK_S / 1.25, {}), BOTH, "wrong datasheet"),
        ((product(*BIG), PEAK_S / 3, {}), BOTH, "broken timer"),
        ((product(*BIG), PEAK_S * 0.999, WITHIN), CALIBRATED, "ceiling too low"),
        ((stream(1 << 26, "read"), (1 << 26) / 5.76e12, WARM), BOTH, "warm cache"),
        ((stream(1 << 20, "read", "hot"), 1e-9, {}), [], ""),
        ((product(*BIG, protocol=ZEROS), CEILING_S / 1.1, {}), CALIBRATED, "zeros"),
    ],
)
def test_a_point_faster_than_a_roof_is_found_with_its_likely_cause(
    tmp_path: Path,
    h200: DeviceSpec,
    measured: tuple[PlanPoint, float, dict[str, Any]],
    bounds: list[str],
    cause: str,
) -> None:
    made_up = MadeUpRun(replace(GPU, last_level_cache_bytes=CACHE))
    add_constants(made_up)
    point, seconds, changes = measured
    made_up.measure(point, seconds, **changes)
    run = load_run(made_up.write(tmp_path))
    table = shown_of(analyse(run, h200), "audit").files["violations.csv"]
    assert sorted(table["bound"], reverse=True) == bounds
    causes = dict(zip(table["bound"], table["cause"], strict=True))
    assert all(causes[bound].startswith(cause) for bound in bounds[:1])
    assert cause != "warm cache" or len(set(causes.values())) == 1
    without_datasheet = shown_of(analyse(run, None), "audit").files["violations.csv"]
    assert list(without_datasheet["bound"]) == bounds[-1:]


def test_a_row_has_word_class_and_both_numbers(run: Run, h200: DeviceSpec, tmp_path: Path) -> None:
    rows = [{"cube": 8192, "value": 2.0}, {"cube": 8192, "value": 9.0}, {"cube": 64, "value": 1}]
    claims = [
        {"id": f"c{number}", "test": SPEEDUP, "rows": [row], "note": "mind", "hardware": "two"}
        for number, row in enumerate(rows)
    ]
    judged_again = analyse(run, h200, claims=entries(tmp_path, *claims))
    (table,) = [block for block in blocks_of(judged_again, "claims") if isinstance(block, Table)]
    assert re.findall(r'<td class="v (\w+)">([^<]+)</td>', table.body) == [
        ("yes", "holds"),
        ("no", "does not hold"),
        ("none", "cannot be tested"),
    ]
    assert "2x +-10%" in table.body
    assert re.search(r'data-v="1\.9\d+">1\.9\d+x \(1\.9\d+ to [12][.\d]*\)<', table.body)
    assert "no point of gemm with recipe fp8_tensorwise" in table.body
    assert "against bf16 by cublaslt" in table.body
    assert "; mind; made on two" in table.body
