"""Stands in for roofcal.core.machine.nvml on a machine whose only card is GPU-1, an H200."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """What sessions ask of a card."""

    uuid: str = "GPU-1"
    name: str = "NVIDIA H200"
    compute_units: int = 132
    memory_clock_hz: float = 3.201e9
    memory_bus_bits: int = 6016
    power_limit_w: float = 700.0
    driver: str = "580.1"
    process_ids: tuple[int, ...] = ()


def visible_gpus() -> list[Gpu]:
    """The card."""
    return [Gpu()]
