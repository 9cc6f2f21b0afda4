"""How long a visit of a point takes, for what a study says of its length before it is measured.

By op and method on an H200 (2,617 visits of a whole `standard` study), preparing included, as means
over first and later visits; a CPU is measured with equal budgets for all ops. Ops that were not
timed have the times of those that they are made of.
"""

from collections.abc import Iterable
from typing import Final

from roofcal.core.records import VISITED_ONCE, Environment, PlanPoint
from roofcal.ops.spec import Backend

CPU_VISIT_S: Final = 0.6
CPU_RANKS: Final = 4  # processes that stand in for devices on a CPU
# Importing torch and warming the card or the cores, and the panel of sentinels, for each op.
SESSION_S: Final[dict[Backend, float]] = {"cuda": 8.0, "cpu": 2.5}
_METHOD_S: Final = {"alone": 3.2, "burst": 2.05, "energy": 22.0, "accuracy": 0.3}
_VISIT_S: Final = {
    "probe_launch": 0.55,
    "probe_copy": 0.28,
    "probe_math": 0.40,
    "gemm": 0.49,
    "probe_cast": 0.30,
    "cast": 0.35,
    "probe_mixed_gemm": 0.46,
    "mixed_gemm": 0.46,
    "linear": 1.2,
    "norm_linear_sigmoid": 1.05,
    "transformer_block": 12.0,
    "probe_link": 0.4,
    "all_gather_matmul": 0.8,
}


def most_devices(environment: Environment, cards: int) -> int:
    """Devices that a point may share on a machine with so many cards of a kind, or slices of them.

    On a CPU processes stand in for devices: they show that all of it works, and more of them than
    cores would show nothing else. Slices share nothing, because NCCL joins no slices of a card.
    """
    if environment.vendor == "cpu":
        return CPU_RANKS
    return 1 if environment.mig else cards


def plan_seconds(points: Iterable[PlanPoint], backend: Backend, here: int, visits: int) -> float:
    """Seconds of so many visits of the points, or of one where the method needs no more.

    Points that share more devices than the `here` that there are take none. Raises KeyError for an
    op without a time.
    """
    seconds = 0.0
    for point in points:
        if point.world_size <= here:
            method = point.protocol.method
            visit = CPU_VISIT_S
            if backend != "cpu":
                visit = _METHOD_S.get(method) or _VISIT_S[point.op]
            seconds += visit * (1 if method in VISITED_ONCE else visits)
    return seconds
