"""A launch computes nothing, and costs what the smallest grid of each method does."""

import numpy as np
import torch

from roofcal.fitting.probes import Fitted
from roofcal.ops.probe_launch import bench
from roofcal.ops.probe_launch.fit import fit
from tests.roofcal.calibrate.probe_runs import as_probes, device_with, launches


def test_a_launch_runs_on_no_elements() -> None:
    inputs = bench.make_inputs("empty", {"grid": 1}, torch.Generator(), "normal")
    output = bench.build("torch_eager", "empty", {"grid": 1})(inputs)
    assert output.numel() == 0
    assert bench.relative_error("empty", inputs, output) <= bench.tolerance("empty")


def test_launches_in_a_graph_and_from_the_host_are_apart_and_of_the_smallest_grid() -> None:
    fitted = fit(as_probes(launches()), device_with(), np.random.default_rng(0))
    values = {name: constant.value for name, constant in fitted.constants.items()}
    assert values == {"launch_graph_s": 7e-7, "launch_eager_s": 13e-6}
    assert fit([], device_with(), np.random.default_rng(0)) == Fitted()
