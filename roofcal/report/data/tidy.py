"""The tidy frame of an op: one row per plan point, whatever became of it. SI units by suffix.

`relative_error` is predicted / measured - 1 of the calibrated model. How far the op's output is
from its reference is `numeric_error`; what the formats cost beside it is `quantisation_error`.
Where any point of an op has a power of its own (`board_power.py`), its frame has the energy of one
call and of one token (row of A) beside it: of the board by NVML, not at the wall.
Ops with several outputs have `<output>_sqnr_db` of each: signal to quantisation noise.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.environments import CALIBRATED
from roofcal.core.records import TIMELESS, Calibration, PlanPoint, Prediction
from roofcal.fitting.intervals import cards_by_session, sentinel_medians
from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec
from roofcal.report.data.loading import OpRecords, Run
from roofcal.report.data.observations import (
    INTERVAL_HOLDS,
    PEAK_BYTES,
    RANK_SPREAD,
    STATES,
    UNREACHED,
    VISIT_TIMES,
    VISITS,
    sqnr_column,
    time_columns_of,
)
from roofcal.report.data.roofs import CalibratedRoof, datasheet_seconds
from roofcal.report.kit.numbers import shape_text

MODEL: Final = CALIBRATED  # the model behind predicted_s; every other has a column <model>_s

_HEAD: Final = ("op", "provider", "recipe")
_MEASURED: Final = (
    *("world_size", "status", "reason", "median_s", "ci95_low_s", "ci95_high_s"),
    *("achieved_flops_per_s", "achieved_bytes_per_s", "predicted_s", "relative_error"),
    *(INTERVAL_HOLDS, VISITS, STATES),
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
        *("session_id", INTERVAL_HOLDS, STATES, "energy_by"),
    )
)
_POWER: Final = ("board_w", "board_low_w", "board_high_w", "energy_by", "idle_w", "integrated_w")
_ENERGY: Final = ("energy_j", "energy_low_j", "energy_high_j", "energy_j_per_flop")
_ENERGY_PER_TOKEN: Final = "energy_j_per_token"
_COUNTS: Final = frozenset({"world_size", "repeat", "samples", VISITS})
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
    """The tidy frame of records that were read; a sentinel has a row for each of its visits.

    A point that was tried and has no time has none of a model either, and no roof.
    """
    op = records.op
    roof = CalibratedRoof(calibration)
    observed = dict.fromkeys(chain.from_iterable(records.observations.values()))
    outputs = [name for name in observed if name.endswith(sqnr_column(""))]
    outputs += [name for name in (PEAK_BYTES, RANK_SPREAD) if name in observed]
    outputs += _POWER if "board_w" in observed else ()
    others = _model_columns(records.predictions)
    observed_rows: list[Mapping[str, Any]] = []
    visits = {key: of_point.get(VISIT_TIMES, ()) for key, of_point in records.observations.items()}
    sentinels = sentinel_medians(records.points, visits)
    repeated_s: list[Sequence[float]] = []
    columns = list(dict.fromkeys([*columns_of(op), *outputs, *others]))
    # column by column: a dictionary per point would take 4 KB of it
    values: dict[str, list[Any]] = {name: [] for name in (*columns, "datasheet_bound_s")}
    for point in records.points:
        point_id = point.point_id
        repetitions = records.repetitions.get(point_id, ())
        single = [records.observations.get(point_id, UNREACHED)]
        for number, of_visit in enumerate(repetitions or single, start=1):
            row = _planned(point, point_id, op) | dict(of_visit)
            row |= {"repeat": number} if repetitions else {}
            if of_visit["status"] not in TIMELESS:
                row |= _modelled(point, op, spec, roof) | _predicted(point_id, records.predictions)
            observed_rows.append(of_visit)
            repeated_s.append(sentinels.get(point_id, ()))
            for name, column in values.items():
                column.append(row.get(name))
    cards = cards_by_session(records.sessions)
    values |= time_columns_of(observed_rows, cards, values["regime"], repeated_s)
    bounds = pd.Series(values.pop("datasheet_bound_s"), dtype="float64")
    frame = pd.DataFrame({name: _series(name, op, values.pop(name)) for name in columns})
    frame["datasheet_s"] = frame["datasheet_s"].fillna(bounds)
    seconds = frame["median_s"]
    frame["achieved_flops_per_s"] = (frame["flops"] / seconds).where(frame["flops"] > 0)
    frame["achieved_bytes_per_s"] = (frame["dram_bytes"] / seconds).where(frame["dram_bytes"] > 0)
    frame["relative_error"] = frame["predicted_s"] / seconds - 1
    if "board_w" in frame:
        frame = frame.assign(**_energy_columns(frame))
    return frame


def _energy_columns(frame: pd.DataFrame) -> "dict[str, pd.Series[float]]":
    """Energy of one call, with the ends of power and time together, and per FLOP and token."""
    energy = frame["board_w"] * frame["median_s"]
    ends = (
        frame["board_low_w"] * frame["ci95_low_s"],
        frame["board_high_w"] * frame["ci95_high_s"],
    )
    per_flop = (energy / frame["flops"]).where(frame["flops"] > 0)
    columns = dict(zip(_ENERGY, (energy, *ends, per_flop), strict=True))
    return columns | ({_ENERGY_PER_TOKEN: energy / frame["m"]} if "m" in frame else {})


def models_in(frame: pd.DataFrame) -> dict[str, str]:
    """Model -> its column of seconds, for models with at least one prediction in a tidy frame."""
    no_models = {
        "panel_s",
        STATES,
        "median_s",
        "burst_median_s",
        "calibrated_bound_s",
        "started_s",
        "predicted_s",
    }
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


def sqnr_columns(frame: pd.DataFrame) -> list[str]:
    """Columns of signal to quantisation noise in a tidy frame."""
    return [name for name in frame.columns if name.endswith(sqnr_column(""))]


def _series(name: str, op: OpSpec, values: Sequence[Any]) -> "pd.Series[Any]":
    if name in _TEXT:
        return pd.Series(values, dtype="object")
    if name in _COUNTS or name in op.axes:
        return pd.Series(values, dtype="int64")
    return pd.Series(values, dtype="float64")


def _planned(point: PlanPoint, point_id: str, op: OpSpec) -> dict[str, Any]:
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
        "point_id": point_id,
        "flops": work.flops,
        "dram_bytes": work.dram_bytes,
    }


def _modelled(
    point: PlanPoint, op: OpSpec, spec: DeviceSpec | None, roof: CalibratedRoof
) -> dict[str, Any]:
    """The least time by the calibration and by the datasheet.

    Probes have both roofs and no prediction.
    """
    work = op.work_of(point.provider, point.recipe, point.shape)
    return {
        "calibrated_bound_s": roof.seconds(point.recipe, work) or None,
        "datasheet_bound_s": datasheet_seconds(work, spec),
    }


def _predicted(
    point_id: str, predictions: Mapping[str, Mapping[str, Prediction]]
) -> dict[str, Any]:
    predicted: dict[str, Any] = {}
    for model, by_point in predictions.items():
        prediction = by_point.get(point_id)
        if prediction is None:
            continue
        ends = (prediction.low_s, prediction.high_s)
        predicted |= dict(zip(interval_columns(model), ends, strict=True))
        if model == MODEL:
            predicted |= {"predicted_s": prediction.total_s, "bound_by": prediction.bound_by}
        else:
            predicted[f"{model}_s"] = prediction.total_s
    return predicted


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
