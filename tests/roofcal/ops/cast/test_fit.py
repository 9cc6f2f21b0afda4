"""The fit of casts: constants found again, the family told apart, few probes left alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.core.records import Ceiling
from roofcal.fitting.probes import Fitted, Probe
from roofcal.ops.cast.fit import PROBLEM, fit
from tests.roofcal.calibrate import probe_runs
from tests.roofcal.calibrate.probe_runs import (
    CAST_TRUTH,
    PROCESSOR_CAST_TRUTH,
    device_with,
    read_probes,
    write_run,
)

DIM0 = "fp8_rowwise_dim0"
NAME = f"cast.made.{DIM0}"


def probes(folder: Path, noise: float = 0.0) -> list[Probe]:
    return read_probes(write_run(folder, noise=noise), "probe_cast")


def fitted(probes_of_pair: list[Probe], vendor: str = "nvidia") -> Fitted:
    return fit(probes_of_pair, device_with(vendor=vendor), np.random.default_rng(0))


def constants_of(result: Fitted) -> dict[str, Ceiling]:
    """The constants of the one pair there is, by their last names; the family apart."""
    return {
        name.removeprefix(f"{NAME}."): constant
        for name, constant in result.constants.items()
        if constant.unit != "code"
    }


def family_of(result: Fitted) -> str:
    evidence = result.constants[f"{NAME}.cast_family"].evidence
    return evidence.removeprefix("cross-validation: ").partition(";")[0]


def test_constants_are_found_again_within_their_intervals(tmp_path: Path) -> None:
    result = fitted(probes(tmp_path, noise=0.02))
    assert family_of(result) == "plain"
    assert set(constants_of(result)) == set(CAST_TRUTH)
    for name, constant in constants_of(result).items():
        assert constant.value == pytest.approx(CAST_TRUTH[name], rel=0.1), name
        assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert result.errors[NAME]["mape"] < 0.05


def test_what_threads_of_a_processor_cost_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = probe_runs.casts(family="threads")
    monkeypatch.setattr(probe_runs, "casts", lambda: rows)
    result = fitted(probes(tmp_path, noise=0.02), "cpu")
    assert family_of(result) == "threads"
    rate = constants_of(result)["bytes_per_s"].value
    assert rate == pytest.approx(PROCESSOR_CAST_TRUTH["bytes_per_s"], rel=0.1)
    assert result.errors[NAME]["mape"] < 0.05


@pytest.mark.parametrize(("vendor", "least"), [("nvidia", 0.3), ("cpu", 0.02)])
def test_a_start_takes_a_part_of_the_shortest_cast_at_least(
    vendor: str, least: float, tmp_path: Path
) -> None:
    of_device = PROBLEM.of(probes(tmp_path), device_with(vendor=vendor))
    shortest = min(probe.latency.median for probe in of_device.probes)
    _, low, _ = of_device.ranges(of_device.families[0])["fixed_s"]
    assert low == pytest.approx(least * shortest)


def test_seven_probes_are_too_few(tmp_path: Path) -> None:
    assert fitted(probes(tmp_path)[:7]) == Fitted()


def of_pair(probe: Probe, provider: str, recipe: str) -> Probe:
    return replace(probe, point=replace(probe.point, provider=provider, recipe=recipe))


def test_families_are_those_of_the_providers_kernels(tmp_path: Path) -> None:
    every = probes(tmp_path)

    def families(provider: str, vendor: str = "nvidia", recipe: str = DIM0) -> list[str]:
        named = [of_pair(probe, provider, recipe) for probe in every]
        return list(PROBLEM.of(named, device_with(vendor=vendor)).families)

    assert families("made", "cpu") == ["threads"]
    assert families("made") == ["plain"]
    assert families("torch_compile") == ["inductor_rows"]  # along rows
    assert families("triton") == ["ours_divisor", "ours_256"]
    for recipe in ("fp8_rowwise_dim1", "fp8_rowwise_both"):
        assert families("triton", recipe=recipe) == ["ours_columns"]
