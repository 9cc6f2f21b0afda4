"""Casts by calibrated constants `cast.<provider>.<recipe>.*`; equations: the model beside."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from roofcal.core.records import Calibration
from roofcal.core.times import Array, Times
from roofcal.ops.cast.model import CONSTANTS, FAMILIES, FAMILY, evaluate, interval_groups
from roofcal.ops.cast.spec import OP
from roofcal.ops.constants import decode_family, values_of_pair
from roofcal.ops.predictions import Answer, PairShapes, predict_fastest, with_interval
from roofcal.ops.time_models import scaled_times


def cast_times(
    calibration: Calibration, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds of casts with intervals; raises KeyError for a pair that was not calibrated."""
    return _answer(calibration, provider, recipe, (rows, cols)).times


def moving_times(
    calibration: Calibration, provider: str, recipe: str, rows: Array, cols: Array
) -> Times:
    """Seconds that casts take to move their bytes, without starts; intervals as wide as theirs.

    Raises KeyError for a pair that was not calibrated.
    """
    answer = _answer(calibration, provider, recipe, (rows, cols))
    moving = scaled_times(answer.times, answer.parts["dram_s"] / answer.times.total)
    return replace(moving, bound_by=["dram"] * len(rows))


def groups_of(recipe: str, sizes: Sequence[Array]) -> list[str]:  # noqa: ARG001
    """The group of each cast, of GROUPS, whose errors make its interval."""
    return interval_groups(*sizes)


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    name, constants = f"{OP.name}.{provider}.{recipe}", calibration.constants
    values = values_of_pair(constants, name, (FAMILY, *CONSTANTS))
    cache = constants.get("cache_bytes")
    rows, cols = sizes
    family = decode_family(FAMILIES, values[FAMILY])
    cache_bytes, units = cache.value if cache else 0.0, int(constants["compute_units"].value)
    parts = evaluate(values, recipe, (rows, cols), family, cache_bytes, units)
    groups = groups_of(recipe, sizes)
    asked = PairShapes(provider=provider, recipe=recipe, sizes=sizes, groups=groups)
    times = Times(total=parts.total, bound_by=parts.bound_by)
    return Answer(
        times=with_interval(times, calibration, OP, asked),
        parts={"dram_s": parts.moving, "launch_s": parts.fixed},
    )


predict_calibrated = partial(predict_fastest, op=OP, answer=_answer)
