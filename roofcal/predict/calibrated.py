"""The calibrated model: constants fitted on probes, equations of roofcal.ops.gemm.time_model.

A product's interval is prediction * exp(+-e), where e is the 95th percentile of |log error| on
probes that were left out of the fit (shapes with rows off 16 bytes have an e of their own). A cast
has no model of its kernels; its prediction is the calibrated roof: launch + least bytes / copy
bandwidth, with the intervals of those two.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roofcal.ops import BY_NAME
from roofcal.ops.gemm.time_model import (
    ALIGNED_BYTES,
    BY_CODE,
    CONSTANTS,
    Parts,
    describe,
    evaluate,
    row_alignment,
)
from roofcal.predict.sources import Sources
from roofcal.predict.times import Times
from roofcal.records import Calibration, PlanPoint, Prediction

MODEL = "calibrated"
Array = NDArray[np.float64]
_CHUNK: Final = 128  # shapes at once, 250 choices of tile and split each: fits a 256 KiB cache


def recipes(calibration: Calibration) -> list[str]:
    """Recipes of products a calibration has constants of."""
    ends = ".tile_family"
    names = [name for name in calibration.constants if name.endswith(ends)]
    return [name.removeprefix("gemm.").removesuffix(ends) for name in names]


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm that were calibrated."""
    return tuple(recipes(sources.calibration)) if sources.calibration else ()


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds with intervals; raises KeyError for a recipe that was not calibrated."""
    if sources.calibration is None:
        raise KeyError(recipe)
    parts = product_parts(sources.calibration, recipe, m, n, k)
    factors = interval_factors(sources.calibration, recipe, n, k)
    return Times(
        total=parts.total,
        low=parts.total / factors,
        high=parts.total * factors,
        bound_by=parts.bound_by,
    )


def product_parts(calibration: Calibration, recipe: str, m: Array, n: Array, k: Array) -> Parts:
    """Parts of products of one recipe; raises KeyError for a recipe that was not calibrated."""
    value = {name: constant.value for name, constant in calibration.constants.items()}
    prefix = f"gemm.{recipe}."
    family = BY_CODE[int(value[f"{prefix}tile_family"])]
    constants = {name: value[prefix + name] for name in CONSTANTS if prefix + name in value}
    units = int(value["compute_units"])
    chunks = [
        evaluate(constants, describe(recipe, m[s], n[s], k[s], family, units), family)
        for s in (slice(i, i + _CHUNK) for i in range(0, max(1, len(m)), _CHUNK))
    ]
    joined = {f: np.concatenate([getattr(c, f) for c in chunks]) for f in Parts.__slots__}
    return Parts(**joined)


def interval_factors(calibration: Calibration, recipe: str, n: Array, k: Array) -> Array:
    """exp(e) of every shape: a prediction times and divided by it is its 95 % interval."""
    errors = calibration.probe_errors[recipe]
    fast = errors["log_p95"]
    slow = errors.get("log_p95_unaligned", fast)
    factors: Array = np.exp(np.where(row_alignment(recipe, n, k) == ALIGNED_BYTES, fast, slow))
    return factors


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per point that the calibration has constants for, in the order of the points."""
    if sources.calibration is None:
        return []
    calibration = sources.calibration
    found: dict[str, Prediction] = {}
    for recipe in recipes(calibration):
        some = [p for p in points if p.op == "gemm" and p.recipe == recipe]
        found |= {p.point_id: p for p in _products(some, recipe, calibration)}
    casts = [p for p in points if p.op == "cast"]
    found |= {p.point_id: p for p in _casts(casts, calibration)}
    return [found[p.point_id] for p in points if p.point_id in found]


def _products(
    points: Sequence[PlanPoint], recipe: str, calibration: Calibration
) -> list[Prediction]:
    if not points:
        return []
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    parts = product_parts(calibration, recipe, m, n, k)
    factors = interval_factors(calibration, recipe, n, k)
    return [
        Prediction(
            point_id=point.point_id,
            model=MODEL,
            math_s=float(max(parts.tiles[i], parts.power[i])),
            dram_s=float(parts.dram[i]),
            link_s=None,
            launch_s=float(parts.launch[i]),
            total_s=float(parts.total[i]),
            low_s=float(parts.total[i] / factors[i]),
            high_s=float(parts.total[i] * factors[i]),
            bound_by=bound,
        )
        for i, (point, bound) in enumerate(zip(points, parts.bound_by, strict=True))
    ]


def _casts(points: Sequence[PlanPoint], calibration: Calibration) -> list[Prediction]:
    launch = calibration.constants.get("launch_graph_s")
    copy = calibration.constants.get("dram_copy_bytes_per_s")
    if launch is None or copy is None:
        return []
    predictions = []
    for point in points:
        moved = BY_NAME[point.op].work(point.recipe, point.shape).dram_bytes
        dram = moved / copy.value
        predictions.append(
            Prediction(
                point_id=point.point_id,
                model=MODEL,
                math_s=None,
                dram_s=dram,
                link_s=None,
                launch_s=launch.value,
                total_s=launch.value + dram,
                low_s=launch.ci95_low + moved / copy.ci95_high,
                high_s=launch.ci95_high + moved / copy.ci95_low,
                bound_by="dram" if dram >= launch.value else "launch",
            )
        )
    return predictions
