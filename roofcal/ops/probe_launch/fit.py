"""What a kernel that does nothing costs: within a CUDA graph, and from the host."""

from collections.abc import Iterator, Sequence

from roofcal.core.records import Ceiling
from roofcal.fitting.bootstrap import ceiling
from roofcal.fitting.probes import Probe

_NAMES = {"graph": "launch_graph_s", "wall": "launch_eager_s"}


def launch_constants(probes: Sequence[Probe]) -> Iterator[tuple[str, Ceiling]]:
    """launch_graph_s and launch_eager_s: the smallest grid's median and its sampling interval."""
    for method, name in _NAMES.items():
        some = [p for p in probes if p.point.protocol.method == method]
        if some:
            least = min(some, key=lambda probe: probe.shape["grid"])
            evidence = f"probe_launch, method {method}, {least.latency.count} samples"
            summary = least.latency
            yield (
                name,
                ceiling(summary.median, summary.ci95_low, summary.ci95_high, "s", evidence),
            )
