"""Records of a session and of its measurements, for tests that are about something else."""

from typing import Any

from roofcal.core.records import Environment, Measurement, PlanPoint, Session


def session(**fields: Any) -> Session:
    """A session without a card or a checkout; `fields` says what the test is about."""
    defaults: dict[str, Any] = dict.fromkeys(("device_uuid", "git_commit", "git_dirty"))
    defaults |= {"session_id": "s", "environment_id": "e", "op": "gemm", "host": "here"}
    defaults |= {"code_hash": "code", "command": "", "timing": {}, "started_utc": ""}
    return Session(**defaults | fields)


def timed(point: PlanPoint, environment: Environment, *samples_s: float) -> Measurement:
    """The measurement of a point that took `samples_s`, in seconds."""
    return Measurement(
        point_id=point.point_id,
        environment_id=environment.environment_id,
        session_id="s",
        status="ok",
        latency_samples_s=samples_s,
    )
