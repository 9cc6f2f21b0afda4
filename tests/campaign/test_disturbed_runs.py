"""However a measuring session is disturbed, the next one ends with every point, measured once."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from roofcal.core.jsonl import salvage_records
from roofcal.core.machine import locks
from roofcal.core.records import Measurement
from tests.campaign.disturbances import DISTURBANCES, Scene
from tests.campaign.one_op_study import processes_of
from tests.roofcal.measure.runs import Run, point

SEED = int(os.environ.get("ROOFCAL_CAMPAIGN_SEED", "19"))
POINTS = 12
ROUNDS = 4
_END_S = 300.0  # at most; an orphan sees the end of its pipe after the point in flight


def parameter(kind: str, number: int) -> object:
    """One disturbed run; `make test` tries the first of every fifth kind."""
    is_short = number == 0 and list(DISTURBANCES).index(kind) % 5 == 0
    marks = () if is_short else (pytest.mark.campaign,)
    return pytest.param(kind, number, id=f"{kind}-{number}".replace(" ", "-"), marks=marks)


@pytest.mark.parametrize(
    ("kind", "number"), [parameter(kind, n) for n in range(ROUNDS) for kind in DISTURBANCES]
)
def test_a_disturbed_run_loses_nothing_and_doubles_nothing(
    kind: str, number: int, run: Run, record_property: Callable[[str, object], None]
) -> None:
    plan = [point(f"r{i}", "takes a moment", repeat=i) for i in range(POINTS)]
    scene = Scene(run, run.job(plan), random.Random(f"{SEED} {kind} {number}"))

    DISTURBANCES[kind](scene)
    scene.wait()
    before = measured(scene.job.journal)
    scene.start()
    scene.wait()
    deadline = time.monotonic() + _END_S
    while (orphans := processes_of(os.environ["ROOFCAL_LOCKS"])) and time.monotonic() < deadline:
        time.sleep(0.05)

    after = measured(scene.job.journal)
    rows = measured(scene.job.out)
    count = Counter(row.point_id for row in after)
    lock = locks.try_lock("cpu")
    result = {
        "run": f"measuring: {kind}",
        "points lost": sum(row not in after for row in before)
        + len({p.point_id for p in plan} - {row.point_id for row in rows}),
        "measured twice": sum(times - 1 for times in count.values()),
        "orphans": len(orphans),
        "locks left": (lock is None) + len(list(run.folder.glob(".*.lock"))),
    }
    record_property("campaign", result)
    if lock is not None:
        lock.release()
    said = (run.folder / "said").read_text()
    assert scene.sessions[-1].returncode == 0, said
    assert {name: value for name, value in result.items() if name != "run" and value} == {}, said


def measured(path: Path) -> list[Measurement]:
    """The readable measurements of a file of records; [] without the file."""
    records = salvage_records(path)[0] if path.exists() else []
    return [record for record in records if isinstance(record, Measurement)]
