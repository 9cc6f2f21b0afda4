"""Time of a collective by its latency and rate, and what joins the devices of one machine.

    t = latency + share * bytes / rate

share: how often the bytes of the vector pass a device's link in one direction, 2 (w - 1) / w of an
all-reduce, (w - 1) / w of an all-gather and a reduce-scatter (ring; Patarasuk and Yuan, 2009), 1 of
a copy to one peer. So rates of world sizes compare with each other, and with the datasheet.
"""

import math
from dataclasses import dataclass
from typing import Final

from roofcal.core.times import Array

COLLECTIVES: Final = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "copy_engine_peer": "send",
}  # recipe of probe_link -> name in constants `link.<name>.<world size>.*`
_STEPS: Final = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}


def share(collective: str, world_size: int) -> float:
    """See the module; raises KeyError for a name that is none of COLLECTIVES' values."""
    if collective == "send":
        return 1.0
    return _STEPS[collective] * (world_size - 1) / world_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Latency and rate of a transfer: seconds = latency_s + bytes / bytes_per_s."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, moved: Array, transfers: int = 1) -> Array:
        """Seconds to move bytes over a device's link in a number of transfers."""
        return transfers * self.latency_s + moved / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """What joins the devices of one world size.

    library            all-gather of NCCL or gloo, by bytes that a device receives
    direct             all-gather by symmetric memory; None where unknown
    copy_latency_s     of one copy to a peer
    dram_bytes_per_s   of a copy within a device, bytes read and written both counted
    """

    library: Line
    direct: Line | None = None
    copy_latency_s: float = 0.0
    dram_bytes_per_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabrics:
    """A fabric as it is, and at the fast and the slow ends of its intervals, where it has any."""

    likely: Fabric
    fast: Fabric | None = None
    slow: Fabric | None = None


_FREE: Final = Fabric(library=Line(latency_s=0.0, bytes_per_s=math.inf))
NO_LINK: Final = Fabrics(likely=_FREE, fast=_FREE, slow=_FREE)  # for what gathers nothing
