"""Records of every kind, for tests that are about something else: each has what must be there."""

from collections.abc import Mapping
from typing import Any

from roofcal.core.records import (
    Ceiling,
    Environment,
    Measurement,
    PlanPoint,
    Session,
    Telemetry,
)


def environment_of(device: str = "made-up", **fields: Any) -> Environment:
    """A GPU, or a CPU if its name says so."""
    vendor = "cpu" if device.startswith("cpu") else "nvidia"
    defaults: dict[str, Any] = {"vendor": vendor, "device_name": "Made Up", "compute_units": 2}
    return Environment(device=device, **defaults | {"torch": "2", "python": "3.11"} | fields)


def point_of(op: str, recipe: str, shape: Mapping[str, int], **fields: Any) -> PlanPoint:
    """A point on the made-up GPU, by provider `made` if `fields` says no other."""
    defaults: dict[str, Any] = {"provider": "made", "device": "made-up"}
    return PlanPoint(op=op, recipe=recipe, shape=dict(shape), **defaults | fields)


def session(**fields: Any) -> Session:
    """A session without a card or a checkout; `fields` says what the test is about."""
    defaults: dict[str, Any] = dict.fromkeys(("device_uuid", "git_commit", "git_dirty"))
    defaults |= {"session_id": "s", "environment_id": "e", "op": "gemm", "host": "here"}
    defaults |= {"code_hash": "code", "command": "", "timing": {}, "started_utc": ""}
    return Session(**defaults | fields)


def row(*samples_s: float, **fields: Any) -> Measurement:
    """A measurement that took `samples_s`, in seconds."""
    ids = {"point_id": "p", "environment_id": "e", "session_id": "s", "status": "ok"}
    return Measurement(**{**ids, "latency_samples_s": samples_s} | fields)


def timed(point: PlanPoint, environment: Environment, *samples_s: float) -> Measurement:
    """The measurement of a point in an environment."""
    ids = {"point_id": point.point_id, "environment_id": environment.environment_id}
    return row(*samples_s, **ids)


def readings(sample_index: tuple[int, ...], **sensors: Any) -> Telemetry:
    """One reading at each sample. A sensor has a value per reading, or one for all of them."""
    count = len(sample_index)
    defaults = {"sm_clock_hz": 1e9, "memory_clock_hz": 1e9, "power_w": 600.0, "temperature_c": 50.0}
    values = {
        name: value if isinstance(value, tuple) else (value,) * count
        for name, value in (defaults | sensors).items()
    }
    return Telemetry(sample_index=sample_index, **{"throttle_reasons": ((),) * count} | values)


def exactly(value: float, unit: str = "1", half: float = 0.0) -> Ceiling:
    """A calibrated constant; half: of its 95 % interval."""
    low, high = value - half, value + half
    return Ceiling(value=value, ci95_low=low, ci95_high=high, unit=unit, evidence="made up")
