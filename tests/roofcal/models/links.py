"""The made-up GPU with links between several of it, and points that gather over them."""

from dataclasses import replace

from roofcal.core.records import PlanPoint
from roofcal.ops.time_models import Sources
from tests.roofcal.made_up_records import exactly, point_of
from tests.roofcal.models.runs import DESCRIBED, SOURCES, calibration

M, N, K = 8192, 3584, 8192
GATHERED = M * K * 2
LINES = {
    "all_gather": (250e9, 30e-6),
    "all_gather_symm_mem": (400e9, 16e-6),
    "send": (400e9, 5e-6),
}


def linked(*names: str, world_sizes: tuple[int, ...] = (2, 8)) -> Sources:
    """The made-up device with lines of some collectives."""
    own = calibration()
    constants = {
        f"link.{name}.{size}.{tail}": exactly(value, unit, half=0.1 * value)
        for name in names
        for size in world_sizes
        for (tail, unit), value in zip(
            (("bytes_per_s", "B/s"), ("latency_s", "s")), LINES[name], strict=True
        )
    }
    fitted = replace(own, constants={**own.constants, **constants})
    return replace(SOURCES, calibration=fitted, spec=replace(DESCRIBED, link_bytes_per_s=450e9))


LINKED = linked(*LINES)


def gathered(provider: str, world_size: int = 2, recipe: str = "bf16", m: int = M) -> PlanPoint:
    ranks = {"provider": provider, "world_size": world_size}
    return point_of("all_gather_matmul", recipe, {"m": m, "n": N, "k": K}, **ranks)
