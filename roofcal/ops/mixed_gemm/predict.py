"""Products with narrow weights by calibrated constants; equations: the model beside.

Constants are `mixed_gemm.<provider>.<recipe>.*`. The contenders in bf16 and fp8 are products of op
gemm and predicted as those are.
"""

from collections.abc import Sequence

from roofcal.core.records import Calibration, PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.gemm import predict as gemm
from roofcal.ops.mixed_gemm.model import (
    CONSTANTS,
    FAMILIES,
    FAMILY,
    Parts,
    evaluate,
    interval_groups,
)
from roofcal.ops.mixed_gemm.spec import CONTENDERS, OP
from roofcal.ops.predictions import Answer, PairShapes, predict_fastest, with_interval


def narrow_parts(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Parts:
    """Parts of products of sizes (m, n, k); raises KeyError for a pair that was not calibrated."""
    constants = calibration.constants
    name = f"{OP.name}.{provider}.{recipe}"
    values = values_of_pair(constants, name, (FAMILY, *CONSTANTS))
    units = int(constants["compute_units"].value)
    m, n, k = sizes
    return evaluate(values, decode_family(FAMILIES, values[FAMILY]), units, recipe, (m, n, k))


def product_times(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Times:
    """Seconds of products of sizes (m, n, k) with intervals; KeyError for a pair not calibrated."""
    return _answer(calibration, provider, recipe, sizes).times


def predict_calibrated(
    points: Sequence[PlanPoint], calibration: Calibration, model: str
) -> list[Prediction]:
    """A prediction per point whose provider and recipe were calibrated."""
    contenders = [point for point in points if point.recipe in CONTENDERS]
    narrow = [point for point in points if point.recipe not in CONTENDERS]
    return [
        *gemm.predict_calibrated(contenders, calibration, model),
        *predict_fastest(narrow, calibration, model, OP, _answer),
    ]


def groups_of(recipe: str, sizes: Sequence[Array]) -> list[str]:  # noqa: ARG001
    """The group of each product, of GROUPS, whose errors make its interval."""
    return interval_groups(sizes[0])


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    parts = narrow_parts(calibration, provider, recipe, sizes)
    groups = groups_of(recipe, sizes)
    asked = PairShapes(provider=provider, recipe=recipe, sizes=sizes, groups=groups)
    times = Times(total=parts.total, bound_by=parts.bound_by)
    return Answer(
        times=with_interval(times, calibration, OP, asked),
        parts={"math_s": parts.math + parts.slots, "dram_s": parts.dram, "launch_s": parts.fixed},
    )
