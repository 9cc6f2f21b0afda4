"""Launch cost comes from the smallest grid of each method."""

import numpy as np

from roofcal.core.records import Measurement
from roofcal.core.statistics import summarise
from roofcal.fitting.probes import Fitted, Probe
from roofcal.ops.probe_launch.fit import fit
from tests.roofcal.calibrate.probe_runs import device_with, launches


def test_graph_and_wall_are_apart() -> None:
    probes = [
        Probe(
            point=point,
            measurement=Measurement(point_id="p", environment_id="e", session_id="s", status="ok"),
            latency=summarise([t] * 9),
        )
        for point, t in launches()
    ]
    constants = fit(probes, device_with(), np.random.default_rng(0)).constants
    values = {name: constant.value for name, constant in constants.items()}
    assert values == {"launch_graph_s": 7e-7, "launch_eager_s": 13e-6}


def test_no_probes_no_constants() -> None:
    assert fit([], device_with(), np.random.default_rng(0)) == Fitted()
