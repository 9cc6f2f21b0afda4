"""Probes of memory and of launches: right outputs, wrong ones caught, constants found again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from roofcal.core import paths
from roofcal.core.records import Ceiling, Measurement, PlanPoint
from roofcal.core.statistics import summarise
from roofcal.fitting.probes import Fitted, Probe
from roofcal.ops.probe_copy import bench as copy_bench
from roofcal.ops.probe_copy.fit import fit
from roofcal.ops.probe_launch import bench as launch_bench
from roofcal.ops.probe_launch.fit import fit as fit_launches
from roofcal.study.config import load_study
from roofcal.study.plan import plan_op
from tests.roofcal.calibrate.probe_runs import CACHE, DRAM, device_with, launches, streams

SHAPE = {"size_bytes": 4 * 1000}


@pytest.mark.parametrize("recipe", ["read", "write", "copy"])
def test_a_stream_is_right_and_what_it_left_out_is_caught(recipe: str) -> None:
    inputs = copy_bench.make_inputs(recipe, SHAPE, torch.Generator().manual_seed(0), "normal")
    output = copy_bench.build("torch_eager", recipe, SHAPE)(inputs)
    assert copy_bench.relative_error(recipe, inputs, output) <= copy_bench.tolerance(recipe)
    if recipe == "read":
        output = inputs["src"][:-100].sum()
    else:
        inputs["dst"][-1] = float("nan")  # what the destination held before
    assert not copy_bench.relative_error(recipe, inputs, output) <= copy_bench.tolerance(recipe)


def test_a_launch_runs_on_no_elements() -> None:
    inputs = launch_bench.make_inputs("empty", {"grid": 1}, torch.Generator(), "normal")
    output = launch_bench.build("torch_eager", "empty", {"grid": 1})(inputs)
    assert output.numel() == 0
    error = launch_bench.relative_error("empty", inputs, output)
    assert error <= launch_bench.tolerance("empty")


def measured(rows: Sequence[tuple[PlanPoint, float]]) -> list[Probe]:
    row = Measurement(point_id="p", environment_id="e", session_id="s", status="ok")
    return [Probe(point=point, measurement=row, latency=summarise([t] * 9)) for point, t in rows]


def probes(provider: str = "made", slower: float = 1.0) -> list[Probe]:
    return measured([(replace(p, provider=provider), t * slower) for p, t in streams()])


def constants(of: Sequence[Probe], cache: int | None = 50 << 20) -> dict[str, Ceiling]:
    device = device_with(last_level_cache_bytes=cache)
    return fit(of, device, np.random.default_rng(0)).constants


def test_the_start_of_a_stream_does_not_lower_its_bandwidth() -> None:
    bandwidths = constants(probes())
    assert bandwidths["dram_copy_bytes_per_s"].value == pytest.approx(DRAM["copy"], rel=1e-6)
    assert bandwidths["cache_read_bytes_per_s"].value == pytest.approx(CACHE, rel=1e-6)


def test_the_fastest_provider_counts() -> None:
    bandwidths = constants([*probes("slow", 1.3), *probes("fast")])
    assert "provider fast" in bandwidths["dram_read_bytes_per_s"].evidence


def test_the_size_of_the_cache_is_a_constant_where_it_is_known_and_else_there_is_no_bandwidth() -> (
    None
):
    assert constants([])["cache_bytes"].value == 50 << 20
    assert constants([]).keys() == {"cache_bytes"}
    assert constants([], None) == {}
    bandwidths = constants(probes(), None)
    assert not any(name.startswith("cache") for name in bandwidths)
    assert "dram_read_bytes_per_s" in bandwidths


@pytest.mark.parametrize("cache", [110 << 20, 480 << 20])
def test_a_cache_larger_than_the_probes_leaves_their_three_largest_sizes(cache: int) -> None:
    # the sizes of a CPU study end at 256 MiB
    short = [probe for probe in probes() if probe.shape["size_bytes"] <= 1 << 28]
    read = constants(short, cache)["dram_read_bytes_per_s"]
    assert read.value == pytest.approx(DRAM["read"], rel=1e-6)
    assert "3 sizes" in read.evidence


def test_two_sizes_are_too_few_for_a_bandwidth() -> None:
    two = [probe for probe in probes() if probe.shape["size_bytes"] >= 1 << 31]
    assert constants(two, None) == {}


@pytest.mark.parametrize("size", ["standard", "full"])
def test_a_study_of_a_gpu_measures_what_each_bandwidth_is_fitted_on(size: str) -> None:
    study_slice = load_study(paths.CONFIG, {"study": size}).op_slice("probe_copy", "cuda")
    plan = plan_op(study_slice, device_with().environment)
    planned = {(point.protocol.cache, point.shape["size_bytes"]) for point in plan}
    taken = [p for p in probes() if (p.point.protocol.cache, p.shape["size_bytes"]) in planned]
    kinds = ("read", "write", "copy")
    wanted = {f"{place}_{kind}_bytes_per_s" for place in ("dram", "cache") for kind in kinds}
    assert constants(taken).keys() == {*wanted, "cache_bytes"}


def test_launches_in_a_graph_and_from_the_host_are_apart_and_of_the_smallest_grid() -> None:
    fitted = fit_launches(measured(launches()), device_with(), np.random.default_rng(0))
    values = {name: constant.value for name, constant in fitted.constants.items()}
    assert values == {"launch_graph_s": 7e-7, "launch_eager_s": 13e-6}
    assert fit_launches([], device_with(), np.random.default_rng(0)) == Fitted()
