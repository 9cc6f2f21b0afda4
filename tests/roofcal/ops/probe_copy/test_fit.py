"""Streams: cache and memory apart, the fastest provider counts."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.records import Measurement
from roofcal.core.statistics import summarise
from roofcal.fitting.probes import Probe
from roofcal.ops.probe_copy.fit import bandwidth_constants
from tests.roofcal.calibrate.probe_runs import CACHE, DRAM, streams


def probes(provider: str = "made", slower: float = 1.0) -> list[Probe]:
    found = []
    for point, t in streams():
        samples = (t * slower,) * 8
        measured = Measurement(
            point_id="p", environment_id="e", session_id="s", status="ok", latency_samples_s=samples
        )
        named = replace(point, provider=provider)
        found.append(Probe(point=named, measurement=measured, latency=summarise(samples)))
    return found


def constants(some: list[Probe], cache: float | None = 50 << 20) -> dict[str, float]:
    found = bandwidth_constants(some, cache, np.random.default_rng(0))
    return {name: constant.value for name, constant in found}


def test_the_start_of_a_stream_does_not_lower_its_bandwidth() -> None:
    found = constants(probes())
    assert found["dram_copy_bytes_per_s"] == pytest.approx(DRAM["copy"], rel=1e-6)
    assert found["cache_read_bytes_per_s"] == pytest.approx(CACHE, rel=1e-6)


def test_the_fastest_provider_counts() -> None:
    found = dict(
        bandwidth_constants(
            [*probes("slow", 1.3), *probes("fast")], 50 << 20, np.random.default_rng(0)
        )
    )
    assert "provider fast" in found["dram_read_bytes_per_s"].evidence


def test_without_a_known_cache_there_is_no_cache_bandwidth() -> None:
    assert not any(name.startswith("cache") for name in constants(probes(), None))
    assert "dram_read_bytes_per_s" in constants(probes(), None)


@pytest.mark.parametrize("cache", [110 << 20, 480 << 20])
def test_a_cache_larger_than_the_probes_leaves_their_three_largest_sizes(cache: float) -> None:
    # the sizes of a CPU study end at 256 MiB
    some = [probe for probe in probes() if probe.shape["size_bytes"] <= 1 << 28]
    found = bandwidth_constants(some, cache, np.random.default_rng(0))
    read = dict(found)["dram_read_bytes_per_s"]
    assert read.value == pytest.approx(DRAM["read"], rel=1e-6)
    assert "3 sizes" in read.evidence


def test_two_sizes_are_too_few_for_a_bandwidth() -> None:
    some = [probe for probe in probes() if probe.shape["size_bytes"] >= 1 << 31]
    assert constants(some) == {}
