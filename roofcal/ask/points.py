"""Predictions for a person: of one point, or of a CSV of points."""

import csv
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.core.csv_files import Cells, read_rows, size_errors
from roofcal.core.names import did_you_mean_or_all
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array
from roofcal.models import calibrated
from roofcal.models.errors import PredictError
from roofcal.models.registry import model_named, predict_points
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME
from roofcal.ops.constants import calibrated_providers
from roofcal.ops.parts import load_part
from roofcal.ops.time_models import Sources

_COLUMNS: Final = ("recipe", "m", "n", "k")


def predict_point(point: PlanPoint, model: str, sources: Sources) -> Prediction:
    """One prediction; raises PredictError where the model has no answer for the point."""
    time_model = model_named(model)
    check_point(point)
    predictions = predict_points(time_model, [point], sources)
    if not predictions:
        raise PredictError(_no_answer(point, model, sources))
    return predictions[0]


def _no_answer(point: PlanPoint, model: str, sources: Sources) -> str:
    """Why a model has no prediction of a point, and what it can predict."""
    if model != calibrated.MODEL and sources.spec is None:
        why = f"there is no config/devices/{point.device}.yaml"
    elif model == wave.MODEL and sources.wave is None:
        why = f"config/devices/{point.device}.yaml has no section 'wave'"
    else:
        recipes = model_named(model).product_recipes(sources)
        why = f"it knows the products {', '.join(recipes) or 'of no recipe'} there"
        if point.recipe in recipes and sources.calibration and model == calibrated.MODEL:
            constants = sources.calibration.constants
            names = ", ".join(calibrated_providers(constants, "gemm", point.recipe))
            why = f"it knows products {point.recipe} by {names} there"
    explain = getattr(load_part(BY_NAME[point.op], "predict"), "why_unanswered", None)
    if explain is not None:
        why = explain(model_named(model), point, sources) or why
    what = f"{point.op} {point.recipe}" + (f" by {point.provider}" if point.provider else "")
    return f"model '{model}' has no answer for {what} on {point.device}: {why}"


def check_point(point: PlanPoint) -> None:
    """Raises PredictError for an unknown op or recipe."""
    if point.op not in BY_NAME:
        raise PredictError(f"unknown op '{point.op}'{did_you_mean_or_all(point.op, BY_NAME)}")
    op = BY_NAME[point.op]
    if not op.has_recipe(point.recipe):
        if op.written_recipe is not None and "+" in point.recipe:  # written down, with a mistake
            try:
                op.written_recipe(point.recipe)
            except ValueError as error:
                raise PredictError(str(error)) from None
        nearest = did_you_mean_or_all(point.recipe, op.recipes)
        raise PredictError(f"unknown recipe '{point.recipe}'{nearest}")
    _check_world_size(point, op.shared_axis)


def _check_world_size(point: PlanPoint, axis: str | None) -> None:
    """Raises PredictError for too few or too many devices, and for rows they cannot share."""
    if axis is None:
        if point.world_size > 1:
            raise PredictError(f"op {point.op} runs on one device; leave --world-size out")
        return
    if point.world_size < 2:
        raise PredictError(f"op {point.op} runs on several devices; give --world-size 2 or more")
    size = point.shape.get(axis, 0)
    if size % point.world_size:
        raise PredictError(
            f"{axis}={size} is no multiple of world size {point.world_size}, and its devices share "
            f"it out evenly; give a multiple of {point.world_size}, or another --world-size"
        )


def as_dict(point: PlanPoint, prediction: Prediction, sources: Sources) -> dict[str, Any]:
    """A prediction with its point and its rates, as JSON values in SI units.

    `environment` is that of the calibration; None for a model that reads none.
    """
    work = BY_NAME[point.op].work(point.recipe, point.shape)
    return {
        "device": point.device,
        "environment": sources.calibration.environment_id if sources.calibration else None,
        "op": point.op,
        "recipe": point.recipe,
        **point.shape,
        **({"world_size": point.world_size} if point.world_size > 1 else {}),
        "model": prediction.model,
        "predicted_s": prediction.total_s,
        "predicted_low_s": prediction.low_s,
        "predicted_high_s": prediction.high_s,
        "bound_by": prediction.bound_by,
        "predicted_flops_per_s": work.flops / prediction.total_s,
        "predicted_bytes_per_s": work.dram_bytes / prediction.total_s,
    }


def predict_csv(path: Path, model: str, sources: Sources) -> str:
    """CSV text with predicted_s, predicted_low_s, predicted_high_s, bound_by added to each row.

    The file has columns recipe, m, n, k; others are dropped. The calibrated model answers for its
    default provider, the library (roofcal.ops.gemm.predict). The ends of the interval are empty for
    a model that states none. Raises CsvError naming file, line and column of up to 20 mistakes.
    """
    time_model = model_named(model)
    rows = read_rows(path, _COLUMNS, _row_errors(time_model.product_recipes(sources)))
    answers: list[list[str]] = [[] for _ in rows]
    for recipe in dict.fromkeys(cells["recipe"] for _, cells in rows):
        places = [place for place, (_, cells) in enumerate(rows) if cells["recipe"] == recipe]
        m, n, k = (np.array([float(rows[p][1][axis]) for p in places]) for axis in "mnk")
        times = time_model.product_times(sources, recipe, m, n, k)
        seconds = (_six_digits(end, len(places)) for end in (times.total, times.low, times.high))
        for place, *answer in zip(places, *seconds, times.bound_by, strict=True):
            answers[place] = answer
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*_COLUMNS, "predicted_s", "predicted_low_s", "predicted_high_s", "bound_by"))
    for (_, cells), answer in zip(rows, answers, strict=True):
        table.writerow((cells["recipe"], *(int(cells[axis]) for axis in "mnk"), *answer))
    return text.getvalue()


def _six_digits(seconds: Array | None, count: int) -> list[str]:
    return [""] * count if seconds is None else [f"{s:.6g}" for s in seconds]


def _row_errors(recipes: Sequence[str]) -> Callable[[Cells], Iterator[str]]:
    """Yields what is wrong with a row: a recipe without products in the model, a bad size."""

    def errors(cells: Cells) -> Iterator[str]:
        if cells["recipe"] not in recipes:
            nearest = did_you_mean_or_all(cells["recipe"], recipes)
            yield f"recipe '{cells['recipe']}'{nearest}"
        yield from size_errors(cells, "mnk")

    return errors
