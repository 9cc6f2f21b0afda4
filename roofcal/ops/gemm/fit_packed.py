"""Products of a processor as a problem of the fit; equations: `packed` and `model` beside."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from roofcal.core.times import Array
from roofcal.fitting.cross_validation import Problem, SearchSpace, columns_by_name
from roofcal.ops.constant import search_ranges
from roofcal.ops.gemm.model import (
    CONSTANTS,
    FAMILIES,
    NEUTRAL,
    PLAIN_CONSTANTS,
    PackedFamily,
    Shapes,
    describe,
    least_work,
    plain_parts,
)
from roofcal.ops.gemm.packed import packed_parts

# Logarithms added to the starts of all that moves bytes: whether the search takes copying or
# multiplying for what binds at first.
_SHIFTS: Final = (-1.0, 0.0, 1.0)


class ProcessorProducts(Problem):
    """Products of one provider and recipe on a CPU."""

    axes = ("m", "n", "k")
    neutral = NEUTRAL

    @property
    def families(self) -> Sequence[str]:
        """Those without tiles: every core works on any part of a product."""
        return [name for name, family in FAMILIES.items() if family.is_plain]

    @cached_property
    def _shapes(self) -> Shapes:
        m, n, k = self.sizes
        return describe(self.recipe, m, n, k, "plain", self.device.compute_units)

    @cached_property
    def bounds(self) -> Mapping[str, tuple[float, float, float]]:
        """Constant -> (start, least, most), from the fastest product and the shortest time."""
        flops, moved = least_work(self.recipe, *self.sizes)
        units, shortest = self.device.compute_units, float(self.seconds.min())
        rate = float((flops / self.seconds).max())
        stream = self.device.stream_bytes_per_s or 2 * float((moved / self.seconds).max())
        quantities = {
            "rate": (rate, 1.0),
            "unit_rate": (rate, float(units)),
            "stream": (stream, 1.0),
            "time": (shortest, 1.0),
        }
        return search_ranges(CONSTANTS.values(), quantities, on_cpu=True)

    def space(self, family: str) -> SearchSpace:
        """The constants of the family, from starts where copying costs less or more."""
        how = FAMILIES[family]
        names = how.constants if isinstance(how, PackedFamily) else PLAIN_CONSTANTS
        start, low, high = np.log([self.bounds[name] for name in names]).T
        copies = np.array([name.startswith("pack_") for name in names])
        starts = [start + shift * copies for shift in _SHIFTS if shift == 0 or copies.any()]
        return SearchSpace(names=names, low=low, high=high, starts=np.array(starts))

    def predicted_seconds(self, family: str, constants: Array) -> Array:
        """Seconds by the equation of the family."""
        columns = columns_by_name(self.space(family).names, constants, NEUTRAL)
        if not isinstance(FAMILIES[family], PackedFamily):
            return plain_parts(columns, self._shapes).total
        m, n, k = self.sizes
        return packed_parts(columns, self.recipe, (m, n, k), self.device.compute_units).total
