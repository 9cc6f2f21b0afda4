"""However Snakemake is disturbed, the next study ends with every point, measured once."""

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.campaign.one_op_study import POINTS, StudyOfOneOp, processes_of
from tests.campaign.test_disturbed_runs import SEED
from tests.roofcal.measure.runs import Run
from tests.waiting import wait_until

pytestmark = pytest.mark.campaign
ROUNDS = 4
DISTURBANCES = {
    "kill -9": (signal.SIGKILL,),
    "SIGTERM": (signal.SIGTERM,),
    "Ctrl-C": (signal.SIGINT,),
    "Ctrl-C, then kill -9": (signal.SIGINT, signal.SIGKILL),
    "SIGHUP (a closed terminal)": (signal.SIGHUP,),
}


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("kind", DISTURBANCES)
def test_a_disturbed_study_loses_nothing_and_doubles_nothing(
    kind: str, number: int, run: Run, record_property: Callable[[str, object], None]
) -> None:
    chance = random.Random(f"{SEED} {kind} {number}")
    study = StudyOfOneOp.at(run.folder / "checkout", run.folder / "trace")
    process = study.start()
    study.wait_for_points(chance.randrange(1, POINTS))
    time.sleep(chance.random())
    for number_of_signal in DISTURBANCES[kind]:
        process.send_signal(number_of_signal)
        time.sleep(0.2)
    process.wait(timeout=600)

    code = study.finish()

    locks = os.environ["ROOFCAL_LOCKS"]
    wait_until(lambda: not processes_of(locks), "the last process")
    result = study.result(kind, len(processes_of(locks)))
    record_property("campaign", result)
    assert code == 0, study.log.read_text()[-3000:]
    assert {key: value for key, value in result.items() if key != "run" and value} == {}
