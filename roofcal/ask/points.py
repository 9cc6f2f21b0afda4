"""Predictions for questions of a person: one point, or a CSV of points."""

import csv
import difflib
import math
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array
from roofcal.models import calibrated, composed, gathered_points, linear_points
from roofcal.models.errors import PredictError
from roofcal.models.fabrics import fabrics_of, world_sizes
from roofcal.models.registry import model_named
from roofcal.models.sources import Sources
from roofcal.models.wave import model as wave
from roofcal.ops import BY_NAME
from roofcal.ops.all_gather_matmul.spec import GEMM_ONLY
from roofcal.ops.constants import calibrated_providers

_COLUMNS: Final = ("recipe", "m", "n", "k")
_MOST_ERRORS: Final = 20
_LARGEST: Final = 1 << 30  # a side beyond any matrix that fits a device; its products stay exact


def predict_point(point: PlanPoint, model: str, sources: Sources) -> Prediction:
    """One prediction; raises PredictError where the model has no answer for the point."""
    asked = model_named(model)
    check_point(point)
    found = composed.predict(asked, [point], sources)
    if not found:
        raise PredictError(_no_answer(point, model, sources))
    return found[0]


def _no_answer(point: PlanPoint, model: str, sources: Sources) -> str:
    """Why a model is silent on a point, and what it knows."""
    if model != calibrated.MODEL and sources.spec is None:
        why = f"there is no config/devices/{point.device}.yaml"
    elif model == wave.MODEL and sources.wave is None:
        why = f"config/devices/{point.device}.yaml has no section 'wave'"
    else:
        known = model_named(model).product_recipes(sources)
        why = f"it knows the products {', '.join(known) or 'of no recipe'} there"
        if point.recipe in known and sources.calibration and model == calibrated.MODEL:
            constants = sources.calibration.constants
            whose = ", ".join(calibrated_providers(constants, "gemm", point.recipe))
            why = f"it knows products {point.recipe} by {whose} there"
    if point.op == gathered_points.OP:
        why = _no_link(point, model, sources) or why
    if point.op == linear_points.OP:
        why = "it lacks a product or a cast of it there, and a linear is their sum"
    what = f"{point.op} {point.recipe}" + (f" by {point.provider}" if point.provider else "")
    return f"model '{model}' has no answer for {what} on {point.device}: {why}"


def _no_link(point: PlanPoint, model: str, sources: Sources) -> str | None:
    """Why a model cannot say how long a gather takes; None where that is not what it lacks."""
    if point.provider == GEMM_ONLY:
        return None
    if fabrics_of(model, sources, point.world_size):
        return None
    if sources.calibration is None or model != calibrated.MODEL:
        return f"it knows no link between {point.world_size} devices there"
    known = ", ".join(map(str, world_sizes(sources.calibration))) or "none"
    return (
        f"its calibration has no link constants of world size {point.world_size}; world sizes it "
        f"has: {known}; measure probe_link there, or ask --model wave"
    )


def check_point(point: PlanPoint) -> None:
    """Raises PredictError for an unknown op or recipe."""
    if point.op not in BY_NAME:
        raise PredictError(f"unknown op '{point.op}'{_nearest(point.op, list(BY_NAME))}")
    op = BY_NAME[point.op]
    if not op.has_recipe(point.recipe):
        if op.written_recipe is not None and "+" in point.recipe:  # a line that makes no sense
            try:
                op.written_recipe(point.recipe)
            except ValueError as error:
                raise PredictError(str(error)) from None
        nearest = _nearest(point.recipe, list(op.recipes))
        raise PredictError(f"unknown recipe '{point.recipe}'{nearest}")
    _check_world_size(point, op.shared_axis)


def _check_world_size(point: PlanPoint, axis: str | None) -> None:
    """Raises PredictError for devices too few or too many, or that cannot share out the rows."""
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


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; allowed: {', '.join(known)}"


def as_dict(point: PlanPoint, prediction: Prediction, sources: Sources) -> dict[str, Any]:
    """A prediction with its question and its rates, as JSON values in SI units.

    environment: of the calibration; None for a model that needs none.
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

    Columns recipe, m, n, k; others are dropped. The calibrated model answers for its default
    provider, the library: see roofcal.ops.gemm.predict. The ends of the interval are empty for a
    model that states none. Raises PredictError naming file, line and column of up to 20 mistakes at
    once.
    """
    asked = model_named(model)
    recipes, sizes = _read(path, asked.product_recipes(sources))
    seconds, bound = np.full((3, len(recipes)), np.nan), [""] * len(recipes)
    for recipe in sorted(set(recipes)):
        rows = np.array([i for i, name in enumerate(recipes) if name == recipe])
        m, n, k = sizes[rows].T
        times = asked.product_times(sources, recipe, m, n, k)
        for line, vector in enumerate((times.total, times.low, times.high)):
            if vector is not None:
                seconds[line, rows] = vector
        for row, name in zip(rows, times.bound_by, strict=True):
            bound[row] = name
    return _written(recipes, sizes, seconds, bound)


def _read(path: Path, known: Sequence[str]) -> tuple[list[str], Array]:
    header, rows = _rows(path)
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        given = ", ".join(header) or "nothing"
        raise PredictError(
            f"{path}:1: column {', '.join(missing)} is missing; the header has {given}"
        )
    order = [header.index(name) for name in _COLUMNS]
    errors = [error for line, row in rows for error in _errors(line, row, order, known)]
    if errors:
        raise PredictError(_together(path, errors))
    if not rows:
        raise PredictError(f"{path}: has no rows below its header")
    sizes = np.array([[int(row[i]) for i in order[1:]] for _, row in rows], dtype=float)
    return [row[order[0]].strip() for _, row in rows], sizes


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """(header, (line, values) of every row that is not blank) of a CSV file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:  # spreadsheets write a BOM
            reader = csv.reader(stream, skipinitialspace=True)
            header = [name.strip() for name in next(reader, [])]
            return header, [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except OSError as error:
        raise PredictError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise PredictError(f"{path}: is not a CSV file in UTF-8 ({error})") from None


def _errors(
    line: int, row: Sequence[str], order: Sequence[int], known: Sequence[str]
) -> Iterator[str]:
    if len(row) <= max(order):
        yield f"{line}: has {len(row)} values, too few for its header"
        return
    recipe = row[order[0]].strip()
    if recipe not in known:
        yield f"{line}: recipe '{recipe}'{_nearest(recipe, sorted(known))}"
    for axis, index in zip(_COLUMNS[1:], order[1:], strict=True):
        if not _is_size(row[index].strip()):
            yield f"{line}: {axis}={row[index][:40]!r} is not a whole number from 1 to 2^30"


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) <= _LARGEST


def _together(path: Path, errors: Sequence[str]) -> str:
    shown = [f"{path}:{error}" for error in errors[:_MOST_ERRORS]]
    more = len(errors) - len(shown)
    return "\n".join([*shown, f"... and {more} more"] if more else shown)


def _written(
    recipes: Sequence[str],
    sizes: Array,
    seconds: Array,
    bound: Sequence[str],
) -> str:
    text = StringIO()
    names = ("predicted_s", "predicted_low_s", "predicted_high_s", "bound_by")
    text.write(",".join((*_COLUMNS, *names)) + "\n")
    whole = sizes.astype(int).tolist()
    for recipe, (m, n, k), times, by in zip(recipes, whole, seconds.T.tolist(), bound, strict=True):
        t, low, high = ("" if math.isnan(s) else f"{s:.6g}" for s in times)
        text.write(f"{recipe},{m},{n},{k},{t},{low},{high},{by}\n")
    return text.getvalue()
