"""Streams on the CPU are right, wrong ones are caught, and their bandwidths are found again."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from roofcal.core import paths
from roofcal.core.records import Ceiling
from roofcal.fitting.probes import Probe
from roofcal.ops.probe_copy import bench
from roofcal.ops.probe_copy.fit import fit
from roofcal.study.config import load_study
from roofcal.study.plan import plan_op
from tests.roofcal.calibrate.probe_runs import CACHE, DRAM, as_probes, device_with, streams

SHAPE = {"size_bytes": 4 * 1000}


@pytest.mark.parametrize("recipe", ["read", "write", "copy"])
def test_a_stream_is_right_and_what_it_left_out_is_caught(recipe: str) -> None:
    inputs = bench.make_inputs(recipe, SHAPE, torch.Generator().manual_seed(0), "normal")
    output = bench.build("torch_eager", recipe, SHAPE)(inputs)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)
    if recipe == "read":
        output = inputs["src"][:-100].sum()
    else:
        inputs["dst"][-1] = float("nan")  # what the destination held before
    assert not bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


def probes(provider: str = "made", slower: float = 1.0) -> list[Probe]:
    return as_probes([(replace(p, provider=provider), t * slower) for p, t in streams()])


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


@pytest.mark.parametrize("size", ["standard", "full"])
def test_a_study_of_a_gpu_measures_what_each_bandwidth_is_fitted_on(size: str) -> None:
    study_slice = load_study(paths.CONFIG, {"study": size}).op_slice("probe_copy", "cuda")
    plan = plan_op(study_slice, device_with().environment)
    planned = {(point.protocol.cache, point.shape["size_bytes"]) for point in plan}
    taken = [p for p in probes() if (p.point.protocol.cache, p.shape["size_bytes"]) in planned]
    kinds = ("read", "write", "copy")
    wanted = {f"{place}_{kind}_bytes_per_s" for place in ("dram", "cache") for kind in kinds}
    assert constants(taken).keys() == {*wanted, "cache_bytes"}


def test_two_sizes_are_too_few_for_a_bandwidth() -> None:
    two = [probe for probe in probes() if probe.shape["size_bytes"] >= 1 << 31]
    assert constants(two, None) == {}
