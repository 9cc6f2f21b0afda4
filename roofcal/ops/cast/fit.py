"""Constants of casts, fitted on probe_cast by provider and recipe; equations: the model beside."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Final

import numpy as np

from roofcal.core.portable_math import log
from roofcal.core.times import Array
from roofcal.fitting.cross_validation import (
    Method,
    Problem,
    SearchSpace,
    columns_by_name,
    fit_each_recipe,
)
from roofcal.fitting.probes import Device, Probe
from roofcal.ops.cast import model
from roofcal.ops.cast.model import (
    CONSTANTS,
    FAMILIES,
    GPU_CONSTANTS,
    INDUCTOR_FAMILIES,
    NEUTRAL,
    OUR_FAMILIES,
    OUR_OTHERS,
    PROCESSOR_CONSTANTS,
    RULES,
    evaluate,
)
from roofcal.ops.constants import search_ranges

# Most of `fill_s` by Inductor, in shortest casts: its small casts scatter by a factor of two.
_MOST_FILL_BY_INDUCTOR: Final = 0.7


class Casts(Problem):
    """Casts of one provider and recipe on a GPU."""

    axes = ("rows", "cols")
    neutral = NEUTRAL

    @property
    def families(self) -> Sequence[str]:
        """Those with the rules of the provider; the probes tell which one it has."""
        rule = RULES.get(self.provider, "")
        if rule == "inductor" and self.recipe in INDUCTOR_FAMILIES:
            return INDUCTOR_FAMILIES[self.recipe]
        if rule == "ours":
            return OUR_FAMILIES.get(self.recipe, OUR_OTHERS)
        return [
            name
            for name, family in FAMILIES.items()
            if family.rule == rule and family.loads != "rows" and not family.grain
        ]

    def names(self, family: str) -> tuple[str, ...]:
        """The constants that are searched."""
        how = FAMILIES[family]
        others = {"uneven"} if how.line == 1 else set()
        if how.rule != "inductor" and how.loads != "columns":
            others.add("further_s")
        if how.rule != "ours" or self.recipe != "fp8_tensorwise":
            others |= {"cached_bytes_per_s", "near_bytes"}
        return tuple(name for name in GPU_CONSTANTS if name not in others)

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float, float]]:
        """Constant -> (start, least, most), from the fastest and the shortest cast."""
        rows, cols = self.sizes
        rate = float((rows * cols / self.seconds).max())
        quantities = {"rate": (rate, 1.0), "time": (float(self.seconds.min()), 1.0)}
        return search_ranges(CONSTANTS.values(), quantities, on_cpu=self.device.is_cpu)

    def space(self, family: str) -> SearchSpace:
        """The constants of the family."""
        ranges = self.ranges
        if FAMILIES[family].rule == "inductor":
            start, least, _ = ranges["fill_s"]
            most = _MOST_FILL_BY_INDUCTOR * float(self.seconds.min())
            ranges = ranges | {"fill_s": (start, least, most)}
        names = self.names(family)
        start, low, high = log(np.array([ranges[name] for name in names])).T
        # Two minima: large casts are slow because of misaligned rows, or all of them are.
        more = log(np.where([name == "misaligned" for name in names], 2.0 / 1.2, 1.0))
        return SearchSpace(names=names, low=low, high=high, starts=np.array([start, start + more]))

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the model."""
        columns = columns_by_name(self.names(family), constants, NEUTRAL)
        rows, cols = self.sizes
        return evaluate(columns, self.recipe, (rows, cols), family, self.device.compute_units).total


class ProcessorCasts(Casts):
    """Casts of one provider and recipe on a CPU."""

    families = ("threads",)

    def names(self, family: str) -> tuple[str, ...]:
        """Those of the equation of threads."""
        return PROCESSOR_CONSTANTS

    def space(self, family: str) -> SearchSpace:
        """Bounds from the fastest and the shortest cast; starts where most is shared or little."""
        names = self.names(family)
        start, low, high = log(np.array([self.ranges[name] for name in names])).T
        serial = np.array([name == "serial_bytes_per_s" for name in names])
        return SearchSpace(
            names=names, low=low, high=high, starts=np.array([start, start - serial])
        )


def casts_of(*, probes: Sequence[Probe], device: Device) -> Casts:
    """The probes of one provider and recipe with the equations of their kind of device."""
    return (ProcessorCasts if device.is_cpu else Casts)(probes=probes, device=device)


METHOD: Final = Method(
    problem=casts_of,
    noun="casts",
    least_probes=8,
    folds=7,
    quick_folds=3,
    soft=0.1,
    resample_from_best=True,
)


# The constants of every provider and recipe with eight casts and more.
fit = partial(fit_each_recipe, op="cast", equation=model, method=METHOD)
