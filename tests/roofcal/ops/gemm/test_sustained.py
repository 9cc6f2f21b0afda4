"""Clock and power under load come from long products, after settling."""

from pathlib import Path

import numpy as np

from roofcal.calibrate.probe_records import read_probes
from roofcal.ops.gemm.sustained import sustained_constants
from tests.roofcal.calibrate.probe_runs import write_run


def test_readings_before_settling_do_not_count(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")
    found = dict(sustained_constants(probes, np.random.default_rng(0)))
    assert found["sustained_sm_clock_hz"].value == 1.4e9
    assert found["sustained_power_w"].value == 690.0


def test_short_products_say_nothing_about_load(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")
    short = [probe for probe in probes if probe.latency.median < 1e-4]
    assert list(sustained_constants(short, np.random.default_rng(0))) == []
