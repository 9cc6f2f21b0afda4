"""What records say of a card: the time of several visits, and its settled state."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.jsonl import write_records
from roofcal.core.records import Visit
from roofcal.health.comparison import read_card
from tests.roofcal.made_up_records import readings, timed
from tests.roofcal.measure.runs import environment, point

POINT = replace(point("fp32"), sweeps=())


def write_card(folder: Path, **changes: object) -> Path:
    row = replace(timed(POINT, environment(), *changes.pop("samples")), **changes)  # type: ignore[misc, arg-type]
    write_records(folder / "environment.jsonl", [environment()])
    write_records(folder / "plan/gemm.jsonl", [POINT])
    write_records(folder / "measurements/gemm.jsonl", [row])
    return folder


def test_visits_that_disagree_widen_the_interval(tmp_path: Path) -> None:
    """Pooled, the samples of two visits would have their median in the gap between them."""
    visits = tuple(Visit(first_sample=first, warmup_samples=0, session_id="s") for first in (0, 20))
    folder = write_card(tmp_path, samples=(1.0,) * 20 + (1.21,) * 20, visits=visits)
    reading = read_card(folder).iloc[0]
    assert reading.seconds == pytest.approx(1.1)
    assert reading.half_width > 0.5


def test_readings_from_before_the_clock_settled_do_not_count(tmp_path: Path) -> None:
    values = {"power_w": (100.0, 700.0), "temperature_c": (40.0, 60.0)}
    reasons = ((), ("power_cap",))
    telemetry = readings((1, 8), sm_clock_hz=(1.9e9, 1.4e9), throttle_reasons=reasons, **values)
    folder = write_card(tmp_path, samples=(1.0,) * 12, warmup_samples=4, telemetry=telemetry)
    reading = read_card(folder).iloc[0]
    assert (reading.clock_hz, reading.power_w, reading.temperature_c) == (1.4e9, 700.0, 60.0)
    assert reading.limited == {"power_cap": 1.0}
