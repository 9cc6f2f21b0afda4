"""The tidy frame of an op: one row per plan point, whatever became of it. SI units by suffix.

`relative_error` is predicted / measured - 1 of the calibrated model. How far the op's output is
from its reference is `numeric_error`; what the formats cost beside it is `quantisation_error`.
Ops with several outputs have `<output>_sqnr_db` of each: signal to quantisation noise.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import CALIBRATED
from roofcal.core.records import Calibration, Measurement, PlanPoint, Prediction
from roofcal.core.statistics import sqnr_db, summarise
from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec
from roofcal.report.data.loading import OpRecords, Run
from roofcal.report.data.roofs import CalibratedRoof, datasheet_seconds
from roofcal.report.kit.numbers import shape_text

MODEL: Final = CALIBRATED  # the model behind predicted_s; every other has a column <model>_s
NOT_REACHED: Final = "not_reached"

_HEAD: Final = ("op", "provider", "recipe")
_MEASURED: Final = (
    *("world_size", "status", "reason", "median_s", "ci95_low_s", "ci95_high_s"),
    *("achieved_flops_per_s", "achieved_bytes_per_s", "predicted_s", "relative_error"),
    *("method", "cache", "distribution", "repeat", "regime", "sweeps", "datasheet_s", "torchao_s"),
    *("predicted_low_s", "predicted_high_s", "bound_by", "burst_median_s", "sm_clock_hz"),
    *("power_w", "temperature_c", "throttle_reasons", "numeric_error", "quantisation_error"),
    *("kernel_names", "point_id", "samples", "flops", "dram_bytes", "calibrated_bound_s"),
    *("rotating_bytes", "session_id", "started_s"),
)
_TEXT: Final = frozenset(
    (
        *("op", "provider", "recipe", "status", "reason", "method", "cache", "distribution"),
        *("regime", "sweeps", "bound_by", "throttle_reasons", "kernel_names", "point_id"),
        "session_id",
    )
)
_SQNR: Final = "_sqnr_db"
RANK_SPREAD: Final = "rank_spread"  # slowest / fastest rank - 1; ops on several devices have it
_COUNTS: Final = frozenset({"world_size", "repeat", "samples"})
_BEHIND_AXES: Final = ("world_size", "method", "repeat")  # one of them follows the axes of an op
PROTOCOL: Final = ["method", "cache", "distribution"]


def columns_of(op: OpSpec) -> tuple[str, ...]:
    """Columns of the tidy frame of an op, in order; columns of further models follow."""
    return (*_HEAD, *op.axes, *_MEASURED)


def tidy_frame(run: Run, op: str, device_spec: DeviceSpec | None) -> pd.DataFrame:
    """One row per plan point of an op, in the order of measuring.

    Columns that need a calibration, predictions or a datasheet are empty without it.

    Raises:
        RecordsError: a file of the run is bad.
        KeyError: there is no such op.
    """
    return frame_of_records(run.read(op), run.calibration, device_spec)


def frame_of_records(
    records: OpRecords, calibration: Calibration | None, spec: DeviceSpec | None
) -> pd.DataFrame:
    """The tidy frame of records that were read."""
    op = records.op
    roof = CalibratedRoof(calibration)
    rows = [
        _planned(point, op)
        | _observed(records.measurements.get(point.point_id))
        | _predicted(point, records.predictions)
        | _bounds(point, op, spec, roof)
        for point in records.points
    ]
    names = (name for m in records.measurements.values() for name in m.output_errors or ())
    outputs = [sqnr_column(name) for name in dict.fromkeys(names)]
    outputs += [RANK_SPREAD] if any(row.get(RANK_SPREAD) is not None for row in rows) else []
    others = _model_columns(records.predictions)
    columns = list(dict.fromkeys([*columns_of(op), *outputs, *others]))
    frame = pd.DataFrame({name: _series(name, op, rows) for name in columns}, columns=columns)
    frame["datasheet_s"] = frame["datasheet_s"].fillna(
        pd.Series([row["datasheet_bound_s"] for row in rows], dtype="float64")
    )
    seconds = frame["median_s"]
    frame["achieved_flops_per_s"] = (frame["flops"] / seconds).where(frame["flops"] > 0)
    frame["achieved_bytes_per_s"] = (frame["dram_bytes"] / seconds).where(frame["dram_bytes"] > 0)
    frame["relative_error"] = frame["predicted_s"] / seconds - 1
    return frame


def models_in(frame: pd.DataFrame) -> dict[str, str]:
    """Model -> its column of seconds, for models with at least one prediction in a tidy frame."""
    no_models = {"median_s", "burst_median_s", "calibrated_bound_s", "started_s", "predicted_s"}
    ends = ("_per_s", "_low_s", "_high_s")
    seconds = [c for c in frame.columns if c.endswith("_s") and not c.endswith(ends)]
    columns = {name.removesuffix("_s"): name for name in seconds if name not in no_models}
    columns |= {MODEL: "predicted_s"}
    return {model: name for model, name in columns.items() if frame[name].notna().any()}


def interval_columns(model: str) -> tuple[str, str]:
    """Columns of both ends of a model's intervals; a frame has them if the model states any."""
    name = "predicted" if model == MODEL else model
    return f"{name}_low_s", f"{name}_high_s"


def _model_columns(predictions: Mapping[str, Mapping[str, Prediction]]) -> list[str]:
    """Columns of all models but MODEL: seconds, and the interval of models that state one."""
    columns = []
    for model in sorted(predictions):
        if model != MODEL:
            columns.append(f"{model}_s")
            stated = any(p.low_s is not None for p in predictions[model].values())
            columns += interval_columns(model) if stated else ()
    return columns


def sqnr_column(output: str) -> str:
    """The column of an output's signal to quantisation noise."""
    return f"{output}{_SQNR}"


def sqnr_columns(frame: pd.DataFrame) -> list[str]:
    """Columns of signal to quantisation noise in a tidy frame."""
    return [name for name in frame.columns if name.endswith(_SQNR)]


def _series(name: str, op: OpSpec, rows: Sequence[Mapping[str, Any]]) -> "pd.Series[Any]":
    values = [row.get(name) for row in rows]
    if name in _TEXT:
        return pd.Series(values, dtype="object")
    if name in _COUNTS or name in op.axes:
        return pd.Series(values, dtype="int64")
    return pd.Series(values, dtype="float64")


def _planned(point: PlanPoint, op: OpSpec) -> dict[str, Any]:
    work = op.work_of(point.provider, point.recipe, point.shape)
    return {
        "op": point.op,
        "provider": point.provider,
        "recipe": point.recipe,
        **{axis: point.shape[axis] for axis in op.axes},
        "world_size": point.world_size,
        "method": point.protocol.method,
        "cache": point.protocol.cache,
        "distribution": point.protocol.distribution,
        "repeat": point.repeat,
        "regime": op.regime(point.shape),
        "sweeps": ";".join(point.sweeps),
        "point_id": point.point_id,
        "flops": work.flops,
        "dram_bytes": work.dram_bytes,
    }


def _observed(measurement: Measurement | None) -> dict[str, Any]:
    if measurement is None:
        reason = "planned, and not measured yet: the session ended before"
        return {"status": NOT_REACHED, "reason": reason, "samples": 0}
    observed: dict[str, Any] = {
        "status": measurement.status,
        "reason": measurement.reason,
        "numeric_error": measurement.relative_error,
        "quantisation_error": measurement.quantisation_error,
        "kernel_names": "; ".join(dict.fromkeys(measurement.kernel_names)) or None,
        "samples": len(measurement.settled_samples_s),
        "rotating_bytes": measurement.rotating_bytes,
        "session_id": measurement.session_id,
        "started_s": measurement.started_s,
    }
    errors = measurement.output_errors or {}
    observed |= {sqnr_column(name): sqnr_db(error) for name, error in errors.items()}
    if measurement.rank_medians_s:
        fastest, slowest = min(measurement.rank_medians_s), max(measurement.rank_medians_s)
        observed[RANK_SPREAD] = slowest / fastest - 1
    if measurement.status == "ok" and measurement.settled_samples_s:
        summary = summarise(measurement.settled_samples_s)
        observed["median_s"] = summary.median
        observed["ci95_low_s"] = summary.ci95_low
        observed["ci95_high_s"] = summary.ci95_high
    if measurement.status == "ok" and measurement.warmup_samples:
        # the first turn: samples taken before the card could warm to this work
        second_turn = next(
            (s for s in measurement.slice_starts if s > 0), len(measurement.latency_samples_s)
        )
        burst = measurement.latency_samples_s[: min(second_turn, measurement.warmup_samples)]
        observed["burst_median_s"] = median(burst)
    return observed | _telemetry(measurement)


def _telemetry(measurement: Measurement) -> dict[str, Any]:
    """Medians of the readings since the clock settled; of all readings if all are earlier."""
    telemetry = measurement.telemetry
    settled = [
        position
        for position, index in enumerate(telemetry.sample_index)
        if index >= measurement.warmup_samples
    ]
    positions = settled or range(len(telemetry.sample_index))
    readings: dict[str, Any] = {}
    for name in ("sm_clock_hz", "power_w", "temperature_c"):
        values = [getattr(telemetry, name)[position] for position in positions]
        readings[name] = median(values) if values else None
    reasons = {reason for position in positions for reason in telemetry.throttle_reasons[position]}
    return readings | {"throttle_reasons": ";".join(sorted(reasons)) or None}


def _predicted(
    point: PlanPoint, predictions: Mapping[str, Mapping[str, Prediction]]
) -> dict[str, Any]:
    predicted: dict[str, Any] = {}
    for model, by_point in predictions.items():
        prediction = by_point.get(point.point_id)
        if prediction is None:
            continue
        ends = (prediction.low_s, prediction.high_s)
        predicted |= dict(zip(interval_columns(model), ends, strict=True))
        if model == MODEL:
            predicted |= {"predicted_s": prediction.total_s, "bound_by": prediction.bound_by}
        else:
            predicted[f"{model}_s"] = prediction.total_s
    return predicted


def _bounds(
    point: PlanPoint, op: OpSpec, spec: DeviceSpec | None, roof: CalibratedRoof
) -> dict[str, Any]:
    """Least time by the calibration and by the datasheet; probes have no prediction of either."""
    work = op.work_of(point.provider, point.recipe, point.shape)
    return {
        "calibrated_bound_s": roof.seconds(point.recipe, work) or None,
        "datasheet_bound_s": datasheet_seconds(work, spec),
    }


# --- reading a tidy frame, or a table that was made of one ---------------------------------------


def axes_of(frame: pd.DataFrame) -> list[str]:
    """The op's own axes among the columns of a frame: those between recipe and protocol."""
    names = list(frame.columns)
    end = next(names.index(name) for name in _BEHIND_AXES if name in names)
    return names[names.index("recipe") + 1 : end]


def shape_texts(frame: pd.DataFrame) -> "pd.Series[Any]":
    """The shape of each row, whatever its axes: '16 x 3,584 x 8,192'."""
    texts = [shape_text(sizes) for sizes in frame[axes_of(frame)].to_numpy()]
    return pd.Series(texts, index=frame.index, dtype=object)


def with_shape(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with the axes of its op in one column `shape`, so that several ops fit in a table."""
    axes, shapes = axes_of(frame), shape_texts(frame)
    shaped = frame.drop(columns=axes)
    shaped.insert(list(frame.columns).index("recipe") + 1, "shape", shapes)
    return shaped


def protocol_name(row: Any) -> str:
    """A protocol in words: 'graph, cold', 'graph, cold, zeros' or 'not timed, heavy tails'."""
    timed = row["method"] != "accuracy"
    parts = [row["method"].replace("_", " + "), row["cache"]] if timed else ["not timed"]
    if row["distribution"] != "normal":
        parts.append(row["distribution"].replace("_", " "))
    return ", ".join(parts)


def with_protocol(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame and its column `protocol`: how a point was timed, in words."""
    names = [protocol_name(row) for row in frame[PROTOCOL].to_dict("records")]
    return frame.assign(protocol=pd.Series(names, index=frame.index, dtype=object))


def standard_protocol(frame: pd.DataFrame) -> "pd.Series[bool]":
    """Rows timed as the study does: graph replay, cold cache, random normal data, first time."""
    return (
        (frame["method"] == "graph")
        & (frame["cache"] == "cold")
        & (frame["distribution"] == "normal")
        & (frame["repeat"] == 0)
    )


def ok_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a median."""
    return frame[(frame["status"] == "ok") & frame["median_s"].notna()]


def standard_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with a median, timed as the study does."""
    return ok_rows(frame[standard_protocol(frame)])


def role_of(frame: pd.DataFrame) -> str | None:
    """probe or study, None for an empty frame."""
    return None if frame.empty else BY_NAME[str(frame["op"].iloc[0])].role


def row_of_largest(frame: pd.DataFrame, column: str) -> "pd.Series[Any]":
    """The row with the largest value of a column; raises ValueError for a frame without any."""
    return frame.iloc[int(np.nanargmax(frame[column].to_numpy(dtype=float)))]
