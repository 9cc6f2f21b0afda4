"""Launch cost comes from the smallest grid of each method."""

from roofcal.core.records import Measurement
from roofcal.core.statistics import summarise
from roofcal.fitting.probes import Probe
from roofcal.ops.probe_launch.fit import launch_constants
from tests.roofcal.calibrate.probe_runs import launches


def test_graph_and_wall_are_apart() -> None:
    probes = [
        Probe(
            point=point,
            measurement=Measurement(point_id="p", environment_id="e", session_id="s", status="ok"),
            latency=summarise([t] * 9),
        )
        for point, t in launches()
    ]
    found = {name: constant.value for name, constant in launch_constants(probes)}
    assert found == {"launch_graph_s": 7e-7, "launch_eager_s": 13e-6}


def test_no_probes_no_constants() -> None:
    assert list(launch_constants([])) == []
