"""The table of points: one row per plan point, real numbers, nothing lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_plan
from roofcal.core.statistics import summarise
from roofcal.core.visits.rows import VisitState
from roofcal.ops import BY_NAME, point_problem
from roofcal.ops.linear.spec import OUTPUTS
from roofcal.ops.spec import OpSpec
from roofcal.points.columns import columns_of, interval_columns, read_states
from roofcal.points.reader import NOT_REACHED
from roofcal.points.run import Run, load_run
from roofcal.points.tables import sqnr_column
from roofcal.report.data.prediction_errors import judged
from roofcal.report.data.tidy import models_in, ok_rows, sqnr_columns, standard_protocol
from tests.paths import ROOT
from tests.roofcal.report.linears import linear_run, true_db
from tests.roofcal.report.synthetic import (
    LAUNCH_S,
    MODEL_ERROR,
    MadeUpRun,
    add_constants,
    product,
    samples_around,
    telemetry,
    true_seconds,
)

PUBLISHED = ROOT / "reports/published"
FIRST = [
    *("op", "provider", "recipe", "m", "n", "k", "world_size", "status", "reason"),
    *("median_s", "ci95_low_s", "ci95_high_s", "achieved_flops_per_s", "achieved_bytes_per_s"),
    *("predicted_s", "relative_error"),
]


@pytest.fixture(scope="module")
def gemm(run: Run, h200: DeviceSpec) -> pd.DataFrame:
    return run.points("gemm", h200).table


def row_of(frame: pd.DataFrame, **values: object) -> Any:
    chosen = standard_protocol(frame)
    for name, value in values.items():
        chosen &= frame[name] == value
    (index,) = frame.index[chosen]
    return frame.loc[index]


def names_of(op: OpSpec) -> list[str]:
    return [column.name for column in columns_of(op)]


def frame_of_points(tmp_path: Path, made_up: MadeUpRun, op: str = "gemm") -> pd.DataFrame:
    return load_run(made_up.write(tmp_path)).points(op).table


def test_states_are_named_by_the_criterion_of_the_reason(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.visit(product(1, 28672, 8192), 121.3e-6, 109.3e-6, 108.7e-6)
    made_up.visit(product(2, 28672, 8192), 100e-6, 104e-6)
    made_up.measure(product(3, 28672, 8192))
    made_up.fail(product(4, 28672, 8192), "unsupported", "made up")
    made_up.plan(product(5, 28672, 8192))

    frame = frame_of_points(tmp_path, made_up)

    assert list(frame["visits"]) == [3, 2, 1, 0, 0]
    assert frame["states_s"].to_list() == ["0.000109 (2); 0.0001213 (1)", None, None, None, None]
    named = frame["reason"].str.contains("different states").fillna(False)
    assert named.to_list() == frame["states_s"].notna().to_list()
    assert "states" not in models_in(frame)
    assert read_states(frame["states_s"][0]) == [
        VisitState(seconds=109e-6, visits=2),
        VisitState(seconds=121.3e-6, visits=1),
    ]


def test_a_point_that_is_a_sentinel_too_has_its_repetitions_as_states(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(4096, 4096, 4096), 504e-6)
    made_up.measure(product(8192, 8192, 8192), 504e-6)
    for repeat, seconds in enumerate((436e-6, 441e-6, 447e-6), start=1):
        sentinel: dict[str, Any] = {"repeat": repeat, "sweeps": ("sentinel",)}
        made_up.measure(product(4096, 4096, 4096, **sentinel), seconds)
        made_up.measure(product(4096, 4096, 4096, "fp8_axiswise", **sentinel), seconds)

    frame = frame_of_points(tmp_path, made_up).drop_duplicates("point_id")

    own = frame[frame["repeat"] == 0].set_index("m")
    assert own["median_s"].to_list() == [504e-6, 504e-6]
    assert own["states_s"][4096] == "0.000441 (3); 0.000504 (1)"
    assert own["states_s"][8192] is None
    assert own["ci95_low_s"][4096] == 436e-6
    assert own["ci95_low_s"][8192] > 500e-6
    assert own["ci95_high_s"][4096] == own["ci95_high_s"][8192] > 504e-6
    assert frame.loc[frame["repeat"] > 0, "states_s"].isna().all()


def test_every_op_has_its_own_axes_behind_the_columns_that_all_have() -> None:
    for op in BY_NAME.values():
        columns = names_of(op)
        assert columns[3 : 3 + len(op.axes)] == list(op.axes)
        assert len(columns) == len(set(columns))


def test_every_planned_point_has_a_row_in_the_order_of_the_plan(
    run: Run, gemm: pd.DataFrame
) -> None:
    assert list(gemm.columns[: len(FIRST)]) == FIRST
    assert sqnr_columns(gemm) == [], "of an op with one output"
    assert list(gemm["point_id"]) == [
        point.point_id for point in read_plan(run.files, "gemm", point_problem)
    ]
    rows = gemm[gemm["status"] != "ok"]
    counts = {"unsupported": 2, "failed": 1, NOT_REACHED: 1}
    assert rows["status"].value_counts().to_dict() == counts
    assert rows["reason"].notna().all()
    assert rows["median_s"].isna().all()


def test_a_row_has_its_settled_samples_rates_readings_and_the_error_of_the_calibrated_model(
    gemm: pd.DataFrame,
) -> None:
    row = row_of(gemm, m=8192, n=8192, k=8192, recipe="bf16")
    seconds = true_seconds(product(8192, 8192, 8192))

    summary = summarise(samples_around(seconds))
    shown = (row["median_s"], row["ci95_low_s"], row["ci95_high_s"])
    assert shown == (summary.median, summary.ci95_low, summary.ci95_high)
    assert row["samples"] == summary.count == 21
    assert row["achieved_flops_per_s"] == pytest.approx(2 * 8192**3 / seconds)
    assert row["achieved_bytes_per_s"] == pytest.approx(3 * 2 * 8192**2 / seconds)
    assert row["burst_median_s"] == 0.9 * seconds, "the median of the first turn"
    assert (row["sm_clock_hz"], row["power_w"], row["temperature_c"]) == (1.4e9, 690.0, 55.0)
    assert row["throttle_reasons"] == "power_cap"
    assert row["kernel_names"] == "nvjet_a; reduce"
    assert row["numeric_error"] == 0.002

    decode = row_of(gemm, m=16, n=3584, k=8192, recipe="fp8_axiswise")
    assert decode["regime"] == "decode"
    assert decode["relative_error"] == pytest.approx(MODEL_ERROR["decode"])
    torchao_s = 0.7 * true_seconds(product(16, 3584, 8192, "fp8_axiswise"))
    assert decode["torchao_s"] == pytest.approx(torchao_s)
    assert decode["predicted_low_s"] == pytest.approx(0.9 * decode["predicted_s"])


def test_readings_of_the_warm_up_count_where_there_is_no_other_and_incorrect_times_never(
    tmp_path: Path,
) -> None:
    made_up = MadeUpRun()
    early = telemetry(1.4e9, 690.0, ("power_cap",))
    made_up.measure(product(64, 64, 64), warmup_samples=20, telemetry=early)
    made_up.measure(product(65, 64, 64), status="incorrect", reason="relative error 0.9")

    first, second = frame_of_points(tmp_path, made_up).to_dict("records")

    assert first["sm_clock_hz"] == 1.4e9  # of 1.9, 1.4 and 1.4
    assert np.isnan(second["median_s"])
    assert second["numeric_error"] == 0.002


@pytest.mark.parametrize("status", ["unsupported", "out_of_memory", None])
def test_a_point_that_was_tried_in_vain_has_no_time_of_a_model(
    status: Any, tmp_path: Path, h200: DeviceSpec
) -> None:
    made_up, point = MadeUpRun(), product(4096, 4095, 4096, "fp8_axiswise")
    add_constants(made_up)
    made_up.predict(point, "calibrated", 112e-6, low_s=100e-6, high_s=125e-6)
    for model in ("torchao", "datasheet", "wave"):
        made_up.predict(point, model, 89e-6)
    if status is None:
        made_up.plan(point)  # nothing says that it has no time
    else:
        made_up.fail(point, status, "n=4095 is no multiple of 16")

    frame = load_run(made_up.write(tmp_path)).points("gemm", h200).table

    times = [name for name in frame.columns if name.endswith("_s") and name != "started_s"]
    filled = frame[[*times, "bound_by", "relative_error"]].notna().iloc[0]
    named = ["predicted_s", "torchao_s", "datasheet_s", "wave_s", "calibrated_bound_s"]
    named += ["predicted_low_s", "predicted_high_s", "bound_by"]
    assert sorted(filled.index[filled]) == ([] if status else sorted(named))


def test_without_calibration_prediction_and_datasheet_their_columns_are_empty(bare: Path) -> None:
    run = load_run(bare)
    frame = run.points("gemm").table
    empty = ["predicted_s", "relative_error", "datasheet_s", "torchao_s", "calibrated_bound_s"]
    assert frame[[*empty, "burst_median_s", "sm_clock_hz"]].isna().all(axis=None)
    assert frame["median_s"].notna().all()

    unplanned = run.points("cast").table
    assert unplanned.empty
    assert list(unplanned.columns) == names_of(BY_NAME["cast"])
    assert judged(unplanned).empty


def test_bounds_are_those_of_the_datasheet_and_of_the_upper_ends_of_the_ceilings(
    run: Run, gemm: pd.DataFrame, h200: DeviceSpec
) -> None:
    row = row_of(gemm, m=8192, n=8192, k=8192, recipe="bf16")
    assert row["calibrated_bound_s"] == pytest.approx(2 * 8192**3 / (600e12 * 1.02))
    frame = run.points("probe_copy", h200).table  # which no model predicts
    copies = frame[(frame["recipe"] == "copy") & (frame["size_bytes"] == 1 << 28)]
    assert list(copies["datasheet_s"]) == pytest.approx([2 * 2**28 / 4.8e12] * 2)

    launches = run.points("probe_launch", h200).table  # which do nothing
    rates = ["achieved_flops_per_s", "achieved_bytes_per_s", "datasheet_s", "calibrated_bound_s"]
    assert launches[rates].isna().all(axis=None)
    assert launches["median_s"].min() == LAUNCH_S


def test_a_model_has_a_column_of_its_own_and_of_the_intervals_that_it_states(
    tmp_path: Path,
) -> None:
    made_up, point = MadeUpRun(), product(64, 64, 64)
    made_up.measure(point)
    made_up.predict(point, "wave", 1.25e-6)
    made_up.predict(point, "calibrated@e2", 1.25e-6, low_s=1e-6, high_s=2e-6)

    frame = frame_of_points(tmp_path, made_up)

    assert list(frame["wave_s"]) == [1.25e-6]
    assert models_in(frame) == {"calibrated@e2": "calibrated@e2_s", "wave": "wave_s"}
    assert interval_columns("calibrated") == ("predicted_low_s", "predicted_high_s")
    assert [float(frame[name].iloc[0]) for name in interval_columns("calibrated@e2")] == [
        1e-6,
        2e-6,
    ]
    assert frame["predicted_s"].isna().all()


def test_outputs_have_their_decibels_also_without_a_time(tmp_path: Path) -> None:
    run = linear_run()
    frame = frame_of_points(tmp_path / "timed", run, "linear")
    assert sqnr_columns(frame) == [sqnr_column(name) for name in OUTPUTS]
    for row, point in zip(frame.to_dict("records"), run.points["linear"], strict=True):
        for name in OUTPUTS:
            expected = true_db(point, name) if row["status"] == "ok" else np.nan
            assert row[f"{name}_sqnr_db"] == pytest.approx(expected, nan_ok=True)
    frame = frame_of_points(tmp_path / "accuracy", linear_run(timed=False), "linear")
    assert frame["median_s"].isna().all()
    assert (frame.loc[frame["recipe"] != "mxfp8", "status"] == "ok").all()
    assert ok_rows(frame).empty
