"""Predictions for questions of a person: one point, or a CSV of points."""

import csv
import difflib
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from roofcal.devices import DeviceSpec
from roofcal.ops import BY_NAME
from roofcal.predict import calibrated, datasheet, torchao
from roofcal.predict.errors import PredictError
from roofcal.records import Calibration, PlanPoint, Prediction

MODELS: Final = (calibrated.MODEL, torchao.MODEL, datasheet.MODEL)
_COLUMNS: Final = ("recipe", "m", "n", "k")
_MOST_ERRORS: Final = 20
_LARGEST: Final = 1 << 30  # a side beyond any matrix that fits a device; its products stay exact


def predict_point(
    point: PlanPoint, model: str, calibration: Calibration, spec: DeviceSpec | None
) -> Prediction:
    """One prediction; raises PredictError where the model has no answer for the point."""
    check_point(point, calibration.constants if model == calibrated.MODEL else None)
    answers = {
        calibrated.MODEL: lambda: calibrated.predict([point], calibration),
        torchao.MODEL: lambda: torchao.predict([point], spec),
        datasheet.MODEL: lambda: datasheet.predict([point], spec),
    }
    found = answers[model]()
    if not found:
        raise PredictError(
            f"model '{model}' has no answer for {point.op} {point.recipe} on {point.device}: "
            + (
                f"there is no config/devices/{point.device}.yaml"
                if spec is None
                else "no such rate"
            )
        )
    return found[0]


def check_point(point: PlanPoint, constants: Mapping[str, Any] | None) -> None:
    """Raises PredictError for an unknown op or recipe, or one that was not calibrated."""
    if point.op not in BY_NAME:
        raise PredictError(f"unknown op '{point.op}'{_nearest(point.op, list(BY_NAME))}")
    known = BY_NAME[point.op].recipes
    if point.recipe not in known:
        raise PredictError(f"unknown recipe '{point.recipe}'{_nearest(point.recipe, list(known))}")
    if constants is not None and point.op == "gemm":
        fitted = [r for r in known if f"gemm.{r}.tile_family" in constants]
        if point.recipe not in fitted:
            raise PredictError(
                f"recipe '{point.recipe}' was not calibrated on {point.device}; "
                f"calibrated: {', '.join(fitted)}"
            )


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else f"; allowed: {', '.join(known)}"


def as_dict(point: PlanPoint, prediction: Prediction, calibration: Calibration) -> dict[str, Any]:
    """A prediction with its question and its rates, as JSON values in SI units."""
    work = BY_NAME[point.op].work(point.recipe, point.shape)
    return {
        "device": point.device,
        "environment": calibration.environment_id,
        "op": point.op,
        "recipe": point.recipe,
        **point.shape,
        "model": prediction.model,
        "predicted_s": prediction.total_s,
        "predicted_low_s": prediction.low_s,
        "predicted_high_s": prediction.high_s,
        "bound_by": prediction.bound_by,
        "predicted_flops_per_s": work.flops / prediction.total_s,
        "predicted_bytes_per_s": work.dram_bytes / prediction.total_s,
    }


def predict_csv(path: Path, calibration: Calibration) -> str:
    """CSV text with predicted_s, predicted_low_s, predicted_high_s, bound_by added to each row.

    Columns recipe, m, n, k; others are dropped. Raises PredictError naming file, line and column of
    up to 20 mistakes at once.
    """
    recipes, sizes = _read(path, calibrated.recipes(calibration))
    total, factor, bound = np.empty(len(recipes)), np.empty(len(recipes)), [""] * len(recipes)
    for recipe in sorted(set(recipes)):
        rows = np.array([i for i, name in enumerate(recipes) if name == recipe])
        m, n, k = sizes[rows].T
        parts = calibrated.product_times(calibration, recipe, m, n, k)
        total[rows] = parts.total
        factor[rows] = calibrated.interval_factors(calibration, recipe, n, k)
        for row, name in zip(rows, parts.bound_by, strict=True):
            bound[row] = name
    return _written(recipes, sizes, total, factor, bound)


def _read(path: Path, known: Sequence[str]) -> tuple[list[str], np.ndarray[Any, Any]]:
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
    sizes: np.ndarray[Any, Any],
    total: np.ndarray[Any, Any],
    factor: np.ndarray[Any, Any],
    bound: Sequence[str],
) -> str:
    text = StringIO()
    names = ("predicted_s", "predicted_low_s", "predicted_high_s", "bound_by")
    text.write(",".join((*_COLUMNS, *names)) + "\n")
    whole = sizes.astype(int).tolist()
    low, high = (total / factor).tolist(), (total * factor).tolist()
    for row in zip(recipes, whole, total.tolist(), low, high, bound, strict=True):
        recipe, (m, n, k), t, t_low, t_high, by = row
        text.write(f"{recipe},{m},{n},{k},{t:.6g},{t_low:.6g},{t_high:.6g},{by}\n")
    return text.getvalue()
