"""How wrong predictions are on layers that no study lists, by the records of the judge.

Points whose shape the calibrated run planned too, for a study or as a probe, are left out and
counted: what an error is judged on was in neither the fit nor the choice of its form.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_plan
from roofcal.core.paths import RunFolder
from roofcal.core.portable_math import exp, log
from roofcal.core.records import PlanPoint
from roofcal.judge.layers import INT4, JUDGED_OPS, OUR_INT4
from roofcal.judge.rivals import rivals_of
from roofcal.models.registry import MODELS, predict_points
from roofcal.ops import BY_NAME, OPS, point_problem
from roofcal.ops.constants import predicted_with
from roofcal.ops.time_models import Model, Sources
from roofcal.points.columns import IDENTITY, MODEL, POINT, Known, columns_of_models, declared
from roofcal.points.errors import error_statistics, errors_of_models
from roofcal.points.reader import measured_sessions, read_points, with_intervals, with_made
from roofcal.points.run import Run

ALL: Final = "all"
FASTEST_OF_OURS: Final = "fastest of ours"  # a provider of the table, where kernels of ours compete
COLUMNS: Final = (
    *("seed", "measured_utc", "op", "model", "recipe", "provider", "regime"),
    *("drawn", "left_out", "count", "mape", "bias", "p95_abs_error", "coverage", "half_width"),
)
_KEYS: Final = ["recipe", "provider", "regime"]
_READ: Final = declared(
    *("status", "median_s", "ci95_low_s", "ci95_high_s", "predicted_s", "regime"),
    *("predicted_low_s", "predicted_high_s", "point_id"),
)


def judged_errors(run: Run, spec: DeviceSpec | None) -> pd.DataFrame:
    """`errors_of_seed` of every seed beside a run, in the order in which they were measured.

    Empty without a calibration. Raises RecordsError for bad files.
    """
    seeds = run.files.judged()
    models = contenders(run, spec) if seeds else []
    parts = [errors_of_seed(seed, own, run, spec, models) for seed, own in seeds.items()]
    filled = [part for part in parts if len(part)]
    if not filled:
        return pd.DataFrame(columns=list(COLUMNS))
    filled.sort(key=lambda part: str(part["measured_utc"].iloc[0]))
    return pd.concat(filled, ignore_index=True)


def contenders(run: Run, spec: DeviceSpec | None) -> list[Model]:
    """All models of time, and the rivals that the probes of a run fit."""
    return [*MODELS.values(), *rivals_of(run, spec)]


def errors_of_seed(
    seed: int, judged: RunFolder, run: Run, spec: DeviceSpec | None, models: Sequence[Model] = ()
) -> pd.DataFrame:
    """The errors of all models on the points of a seed, one row per op, model and kind of point.

    Of each op come first the calibrated model on all points, then the other models on those points
    of them that the calibrated model answers; then, of int4, the kernel of ours that is fastest at
    each shape, measured against predicted; last the calibrated model by recipe, provider and
    regime.

    drawn       points of the plan
    left_out    of them, those whose shape the run planned too
    count       points with a time and a prediction that are not left out
    mape        mean of |predicted / measured - 1|; `p95_abs_error` is its 95th percentile
    bias        exp(mean of log(predicted / measured)) - 1
    coverage    share of points inside the 95 % interval of their prediction
    half_width  median of sqrt(high / low) - 1 of these intervals

    Args:
        seed: it drew the points.
        judged: their records.
        run: the run whose constants predict. Ops with constants of another equation than this
            roofcal has are left out.
        spec: datasheet of the device.
        models: `contenders` of run and datasheet, for callers that judge several seeds.

    Raises:
        RecordsError: a file is bad.
    """
    outdated = predicted_with(run.outdated)
    ops = [op for op in JUDGED_OPS if op in judged.planned_ops() and op not in outdated]
    if run.calibration is None or not ops:
        return pd.DataFrame(columns=list(COLUMNS))
    sources = Sources(calibration=run.calibration, spec=spec)
    models = models or contenders(run, spec)
    rows: list[dict[str, Any]] = []
    for op in ops:
        points = _points(judged, run.files, op, sources, models)
        rows += _rows_of_op(points, op, [model.MODEL for model in models])
    measured_utc = max(s.started_utc for op in ops for s in measured_sessions(judged, op))
    return pd.DataFrame(rows).assign(seed=seed, measured_utc=measured_utc)[[*COLUMNS]]


def _points(
    judged: RunFolder, run: RunFolder, op: str, sources: Sources, models: Sequence[Model]
) -> pd.DataFrame:
    """The points of an op with measured and predicted times, and whether the run planned them."""
    plan = read_plan(judged, op, point_problem)
    answers = {model.MODEL: predict_points(model, plan, sources) for model in models}
    by_id = {name: {p.point_id: p for p in own} for name, own in answers.items()}
    columns = [*IDENTITY, *_READ, *columns_of_models(by_id)]
    known = Known(spec=sources.spec, predictions=by_id)
    table, sessions = read_points(judged, op, columns, known)
    timed = with_made(with_intervals(table, sessions, of_sentinels=True), columns)
    # by the plans of the op and of its probe
    plans = [o.name for o in OPS if o.folder == BY_NAME[op].folder and o.name in run.planned_ops()]
    planned = {_shape_text(p) for name in plans for p in read_plan(run, name, point_problem)}
    shapes = timed[POINT].map(_shape_text)
    return timed.assign(shape=shapes, is_planned=shapes.isin(planned))


def _shape_text(point: PlanPoint) -> str:
    return str(sorted(point.shape.items()))


def _rows_of_op(points: pd.DataFrame, op: str, models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of an op, see `errors_of_seed`."""
    yield _row(points, MODEL, op=op)
    # A contest is on equal points: those that the calibrated model answers.
    answered = points[points["predicted_s"].notna()]
    others = (_row(answered, model, op=op) for model in models if model != MODEL)
    yield from (row for row in others if row["count"])
    ours = points[points["recipe"].isin([INT4]) & points["provider"].isin(OUR_INT4)]
    if len(ours):
        fastest = _fastest_at_each_shape(ours)
        yield _row(fastest, MODEL, op=op, recipe=INT4, provider=FASTEST_OF_OURS)
    for keys, own in points.groupby(_KEYS):
        yield _row(own, MODEL, op=op, **dict(zip(_KEYS, map(str, keys), strict=True)))


def _fastest_at_each_shape(points: pd.DataFrame) -> pd.DataFrame:
    """At each shape the shortest measured time beside the shortest predicted one.

    They may be of different providers: who picks a kernel by its prediction is judged by the time
    of the best one.
    """
    has_both = points["median_s"].notna() & points["predicted_s"].notna()
    seconds = ("predicted_s", "median_s")
    answered = points.assign(**{name: points[name].where(has_both) for name in seconds})
    predicted, measured = (
        answered.sort_values(name, kind="stable").drop_duplicates("shape").set_index("shape")
        for name in seconds
    )
    own = ("status", "median_s", "ci95_low_s", "ci95_high_s")
    return predicted.assign(**{name: measured[name] for name in own})


def _row(points: pd.DataFrame, model: str, **keys: str) -> dict[str, Any]:
    """Statistics of a model on some points."""
    fresh = points[~points["is_planned"].astype(bool) & (points["status"] == "ok")]
    timed = fresh[fresh["median_s"].notna()]
    seconds = "predicted_s" if model == MODEL else f"{model}_s"
    columns = {model: seconds} if seconds in points else {}
    errors = errors_of_models(timed, columns)
    row: dict[str, Any] = {"model": model, **dict.fromkeys(_KEYS, ALL), **keys}
    row |= {"drawn": len(points), "left_out": int(points["is_planned"].sum()), "count": 0}
    if errors.empty:
        return row
    names = ("error", "inside", "score", "faster")
    statistics = error_statistics(*(errors[name].to_numpy() for name in names))
    log_ratios = log(1 + errors["error"].to_numpy(dtype=float))
    widths = np.sqrt((errors["model_high_s"] / errors["model_low_s"]).to_numpy(dtype=float)) - 1
    return row | {
        **{name: statistics[name] for name in ("count", "mape", "p95_abs_error", "coverage")},
        "bias": float(exp(np.array([log_ratios.mean()]))[0]) - 1,
        "half_width": float(np.median(widths)),
    }


def error_lines(errors: pd.DataFrame) -> list[str]:
    """The rows of `errors_of_seed` as a table for a terminal."""
    shown = errors.drop(columns=["seed", "measured_utc"]).rename(columns={"p95_abs_error": "p95"})
    for name in ("mape", "bias", "p95", "coverage", "half_width"):
        sign = "+" if name == "bias" else ""
        shown[name] = [f"{value:{sign}.1%}" if pd.notna(value) else "" for value in shown[name]]
    return shown.to_string(index=False).splitlines()


def error_sentences(errors: pd.DataFrame) -> list[str]:
    """What a seed says of each op, of the rows of `errors_of_seed`."""
    whole = errors[(errors["recipe"] == ALL) & (errors["count"] > 0)]
    sentences = []
    for op, rows in whole.groupby("op", sort=False):
        of_model = rows.set_index("model").to_dict("index")
        own = of_model.pop(MODEL)
        text = (
            f"Predictions of {int(own['count'])} points of {op} are off by {own['mape']:.1%} on "
            f"average (95th percentile {own['p95_abs_error']:.1%}, bias {own['bias']:+.1%}); "
            f"{own['coverage']:.0%} of them lie inside their 95 % intervals, whose median "
            f"half-width is {own['half_width']:.0%}."
        )
        ours = errors[(errors["op"] == op) & (errors["provider"] == FASTEST_OF_OURS)]
        for row in ours[ours["count"] > 0].to_dict("records"):
            text += f" The fastest of our kernels is off by {row['mape']:.1%}."
        compared, not_compared = [], []
        for model, row in of_model.items():
            name = str(model).replace("_", " ")
            if row["count"] == own["count"]:
                compared.append(f"{name} by {row['mape']:.1%}")
            else:
                not_compared.append(f"{name}, which answers {int(row['count'])} of them")
        if compared:
            text += f" On the same points, other models are off: {', '.join(compared)}."
        if not_compared:
            text += f" Not compared: {'; '.join(not_compared)}."
        if unanswered := int(own["drawn"] - own["left_out"] - own["count"]):
            text += f" Without a time or a prediction: {unanswered} more."
        if own["left_out"]:
            text += (
                f" {int(own['left_out'])} of {int(own['drawn'])} points are left out, because the "
                "study has their shapes."
            )
        sentences.append(text)
    return sentences
