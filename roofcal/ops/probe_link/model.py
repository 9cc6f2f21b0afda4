"""Time of a collective by its latency and rate.

    t = latency + share * bytes / rate

share: how often the bytes of the vector pass a device's link in one direction, 2 (w - 1) / w of an
all-reduce, (w - 1) / w of an all-gather and a reduce-scatter (ring; Patarasuk and Yuan, 2009), 1 of
a copy to one peer. So rates of world sizes compare with each other, and with the datasheet.
"""

from typing import Final

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
