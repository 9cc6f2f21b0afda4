"""Constants of casts, fitted on probe_cast by provider and recipe; equations: the model beside."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar, Final

import numpy as np

from roofcal.core.portable_math import log
from roofcal.fitting.cross_validation import Problem, fit_each_recipe
from roofcal.fitting.probes import Device, Probe
from roofcal.ops.cast import model
from roofcal.ops.cast.model import FAMILIES

# Most of `fill_s` by Inductor, in shortest casts: its small casts scatter by a factor of two.
_MOST_FILL_BY_INDUCTOR: Final = 0.7
_MISALIGNED_SHIFT: Final = float(log(np.array([2.0 / 1.2]))[0])


class Casts(Problem):
    """Casts of one provider and recipe on a GPU."""

    equation: ClassVar = model
    noun = "casts"
    least_probes = 8
    folds = 7
    quick_folds = 3

    @classmethod
    def of(cls, probes: Sequence[Probe], device: Device) -> Problem:
        """On a GPU or a processor."""
        return (ProcessorCasts if device.is_cpu else Casts)(probes=probes, device=device)

    @property
    def families(self) -> Sequence[str]:
        """Those with the rules of the provider; the probes tell which one it has."""
        rule = model.RULES.get(self.provider, "")
        if rule == "inductor" and self.recipe in model.INDUCTOR_FAMILIES:
            return model.INDUCTOR_FAMILIES[self.recipe]
        if rule == "ours":
            return model.OUR_FAMILIES.get(self.recipe, model.OUR_OTHERS)
        return [
            name
            for name, family in FAMILIES.items()
            if family.rule == rule and family.loads not in ("rows", "any") and not family.grain
        ]

    def constants(self, family: str) -> Sequence[str]:
        """Those that the kernels of the family depend on."""
        how = FAMILIES[family]
        others = {"uneven"} if how.line == 1 else set()
        if how.loads == "any":
            others.add("misaligned")
        if how.rule != "inductor":
            others.add("further_s")
        if how.rule != "ours" or self.recipe != "fp8_tensorwise":
            others.add("near_bytes")
        return tuple(name for name in model.GPU_CONSTANTS if name not in others)

    @cached_property
    def quantities(self) -> Mapping[str, tuple[float, float]]:
        """From the fastest and the shortest cast."""
        rows, cols = self.sizes
        rate = float((rows * cols / self.seconds).max())
        return {"rate": (rate, 1.0), "time": (float(self.seconds.min()), 1.0)}

    def ranges(self, family: str) -> dict[str, tuple[float, float, float]]:
        """As declared, but for the start of many programs by Inductor."""
        ranges = super().ranges(family)
        if FAMILIES[family].rule == "inductor":
            start, least, _ = ranges["fill_s"]
            most = _MOST_FILL_BY_INDUCTOR * float(self.seconds.min())
            ranges["fill_s"] = (start, least, most)
        return ranges

    def shifts(self, family: str) -> Sequence[Mapping[str, float]]:
        """Two minima: large casts are slow because of misaligned rows, or all of them are."""
        shift = {"misaligned": _MISALIGNED_SHIFT}
        return ({}, shift) if "misaligned" in self.constants(family) else ({},)


class ProcessorCasts(Casts):
    """Casts of one provider and recipe on a CPU."""

    families = ("threads",)

    def constants(self, family: str) -> Sequence[str]:
        """Those of the equation of threads."""
        return model.PROCESSOR_CONSTANTS

    def shifts(self, family: str) -> Sequence[Mapping[str, float]]:
        """Starts where most is shared, or little."""
        return {}, {"serial_bytes_per_s": -1.0}


# The constants of every provider and recipe with eight casts and more.
PROBLEM: Final = Casts
fit = partial(fit_each_recipe, PROBLEM)
