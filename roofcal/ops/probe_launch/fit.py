"""What a kernel that does nothing costs: within a CUDA graph, and from the host."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from roofcal.fitting.intervals import ceiling
from roofcal.fitting.probes import Device, Fitted, Probe

_NAMES: Final = {"graph": "launch_graph_s", "wall": "launch_eager_s"}


def fit(probes: Sequence[Probe], device: Device, generator: np.random.Generator) -> Fitted:
    """launch_graph_s and launch_eager_s: the smallest grid's median and its sampling interval."""
    fitted = Fitted()
    for method, name in _NAMES.items():
        members = [probe for probe in probes if probe.point.protocol.method == method]
        if members:
            latency = min(members, key=lambda probe: probe.shape["grid"]).latency
            evidence = f"probe_launch, method {method}, {latency.count} samples"
            fitted.constants[name] = ceiling(
                latency.median, latency.ci95_low, latency.ci95_high, "s", evidence
            )
    return fitted
