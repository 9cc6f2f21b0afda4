"""Time of a collective by its latency and rate, and what joins the devices of one machine.

    t = latency + share * bytes / rate

share: how often the bytes of the vector pass a device's link in one direction, 2 (w - 1) / w of an
all-reduce, (w - 1) / w of an all-gather and a reduce-scatter (ring; Patarasuk and Yuan, 2009), 1 of
a copy to one peer. So rates of world sizes compare with each other, and with the datasheet.
Constants are `link.<collective>.<world size>.*`.
"""

import math
from typing import Final, NamedTuple

from roofcal.core.records import Calibration
from roofcal.core.times import Array, Duration, Rate
from roofcal.ops.constants import Constant, OpPage, by_name

# The first that was measured counts: as calls follow each other in a captured model; on a CPU,
# where nothing is captured, by the clock.
METHODS: Final = ("graph", "wall")
COLLECTIVES: Final = {
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce",
    "copy_engine_peer": "send",
}  # recipe of probe_link -> name in constants `link.<name>.<world size>.*`
_STEPS: Final = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}
PAGE = OpPage(
    title="Links between devices",
    colours={
        "all_gather": "blue",
        "reduce_scatter": "vermillion",
        "all_reduce": "green",
        "copy_engine_peer": "grey",
    },
    markers={"nccl": "o", "symm_mem": "^", "gloo": "o"},
    constants_prefix="link",
    constants=by_name(
        Constant("bytes_per_s", "B/s", "Rate of the link", datasheet="link_bytes_per_s"),
        Constant("latency_s", "s", "Latency over the link"),
    ),
)


def share(collective: str, world_size: int) -> float:
    """See the module; raises KeyError for a name that is none of COLLECTIVES' values."""
    if collective == "send":
        return 1.0
    return _STEPS[collective] * (world_size - 1) / world_size


class Line(NamedTuple):
    """Latency and rate of a transfer: seconds = latency_s + bytes / bytes_per_s."""

    latency_s: float
    bytes_per_s: float

    def seconds(self, moved: Array, transfers: int = 1) -> Array:
        """Seconds to move bytes over a device's link in a number of transfers."""
        return transfers * self.latency_s + moved / self.bytes_per_s


class Fabric(NamedTuple):
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


class Fabrics(NamedTuple):
    """A fabric as it is, and at the fast and the slow ends of its intervals, where it has any."""

    likely: Fabric
    fast: Fabric | None = None
    slow: Fabric | None = None


_FREE: Final = Fabric(library=Line(0.0, math.inf))
NO_LINK: Final = Fabrics(_FREE, _FREE, _FREE)  # for what gathers nothing


class UncertainLine(NamedTuple):
    """Rate and latency of one collective in one world size, with the ends of their intervals."""

    rate: Rate
    latency: Duration

    def ends(self) -> tuple[Line, Line, Line]:
        """The line as it is likely, at the fast and at the slow ends of both intervals."""
        rate, latency = self.rate, self.latency
        return (
            Line(latency.value_s, rate.value),
            Line(latency.low_s, rate.high),
            Line(latency.high_s, rate.low),
        )


def calibrated_line(
    calibration: Calibration, collective: str, world_size: int
) -> UncertainLine | None:
    """The line of a collective; None where it was not fitted for the world size."""
    prefix = f"link.{collective}.{world_size}."
    rate = calibration.constants.get(f"{prefix}bytes_per_s")
    latency = calibration.constants.get(f"{prefix}latency_s")
    if rate is None or latency is None:
        return None
    return UncertainLine(
        Rate(rate.value, rate.ci95_low, rate.ci95_high),
        Duration(latency.value, latency.ci95_low, latency.ci95_high),
    )


def calibrated_world_sizes(calibration: Calibration, collective: str) -> list[int]:
    """World sizes that a collective was fitted for, smallest first."""
    names = [name.split(".") for name in calibration.constants]
    return sorted({int(name[2]) for name in names if name[:2] == ["link", collective]})


def calibrated_fabrics(calibration: Calibration, world_size: int) -> Fabrics | None:
    """The fabric of one world size from constants of the link; None without an all-gather.

    What is fused takes the constants of all_gather_symm_mem and the latency of send; where one of
    them is missing, `direct` is None.
    """
    gather, direct, send = (
        line.ends() if (line := calibrated_line(calibration, name, world_size)) else None
        for name in ("all_gather", "all_gather_symm_mem", "send")
    )
    if gather is None:
        return None
    copy = calibration.constants.get("dram_copy_bytes_per_s")
    copies = (copy.value, copy.ci95_high, copy.ci95_low) if copy else (math.inf,) * 3
    return Fabrics(
        *(
            Fabric(
                library=gather[end],
                direct=direct[end] if direct and send else None,
                copy_latency_s=send[end].latency_s if send else 0.0,
                dram_bytes_per_s=copies[end],
            )
            for end in range(3)
        )
    )
