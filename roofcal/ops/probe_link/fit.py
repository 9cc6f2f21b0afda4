"""Latency and rate of collectives and peer copies per world size.

The equation is that of roofcal.ops.probe_link.model, fitted over sizes by relative least
squares, neither below zero. Names are those that the model of LLMs reads,
`link.<collective>.<world size>.bytes_per_s` and `.latency_s`; those of symmetric memory have
`_symm_mem` behind the collective. A peer copy, which symmetric memory alone has, is `send`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import Array, ceiling, interval
from roofcal.fitting.probes import Probe
from roofcal.ops.probe_link.model import COLLECTIVES, share

_LEAST_SIZES: Final = 3
# As calls follow each other in a captured model; on a CPU, where nothing is captured, by the clock.
_METHODS: Final = ("graph", "wall")


def link_constants(
    probes: Sequence[Probe], generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    """Rate and latency wherever one method has measured three sizes; graph before wall."""
    pairs = {(p.point.recipe, p.point.provider, p.point.world_size) for p in probes}
    for recipe, provider, world_size in sorted(pairs):
        some = [
            p
            for p in probes
            if (p.point.recipe, p.point.provider, p.point.world_size)
            == (recipe, provider, world_size)
        ]
        members = _of_one_method(some)
        if members:
            name = COLLECTIVES[recipe]
            suffix = "_symm_mem" if provider == "symm_mem" and name != "send" else ""
            prefix = f"link.{name}{suffix}.{world_size}"
            yield from _line(prefix, members, share(name, world_size), generator)


def _of_one_method(probes: Sequence[Probe]) -> list[Probe]:
    """Those of the first method that has measured enough sizes; [] where none has."""
    for method in _METHODS:
        some = [p for p in probes if p.point.protocol.method == method]
        if len({_size(p) for p in some}) >= _LEAST_SIZES:
            return some
    return []


def _size(probe: Probe) -> int:
    return probe.shape["size_bytes"]


def _line(
    prefix: str, probes: Sequence[Probe], part: float, generator: np.random.Generator
) -> Iterator[tuple[str, Ceiling]]:
    moved = np.array([part * _size(p) for p in probes])
    seconds = np.array([p.latency.median for p in probes])

    def fit(index: NDArray[np.int64]) -> Array:
        return np.array(_rate_and_latency(moved[index], seconds[index]))

    low, high = interval(len(probes), fit, generator)
    provider, method = probes[0].point.provider, probes[0].point.protocol.method
    evidence = (
        f"probe_link, provider {provider}, method {method}, {len({*map(_size, probes)})} sizes"
    )
    names = (("bytes_per_s", "B/s"), ("latency_s", "s"))
    for (name, unit), value, below, above in zip(
        names, fit(np.arange(len(probes))), low, high, strict=True
    ):
        yield f"{prefix}.{name}", ceiling(value, below, above, unit, evidence)


def _rate_and_latency(moved: Array, seconds: Array) -> tuple[float, float]:
    """Of seconds = latency + moved / rate, residuals relative to seconds.

    Where time does not grow with size (a few small ones drawn by the bootstrap) the rate is the
    highest that was seen.
    """
    scale = moved.max()
    columns = np.stack([1 / seconds, moved / scale / seconds], axis=1)
    (latency, slope), _ = nnls(columns, np.ones_like(seconds))
    seen = float((moved / seconds).max())
    return (float(scale / slope) if slope > 0 else seen), float(latency)
