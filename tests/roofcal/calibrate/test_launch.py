"""Launch cost comes from the smallest grid of each method."""

from roofcal.calibrate.launch import launch_constants
from roofcal.calibrate.probes import Probe
from roofcal.model.statistics import summarise
from roofcal.records import Measurement
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
