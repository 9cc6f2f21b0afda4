"""The fit of products: errors on probes left out, families by device, and a refusal of too few."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.core.records import Ceiling
from roofcal.fitting.probes import Device, Probe
from roofcal.ops.gemm import model
from roofcal.ops.gemm.fit import PROBLEM, Products, candidates_of, fit
from roofcal.ops.gemm.model import PLAIN_CONSTANTS
from roofcal.ops.gemm.tiles import FAMILIES, describe
from tests.roofcal.calibrate import probe_runs
from tests.roofcal.calibrate.probe_runs import (
    PACKED_TRUTH,
    TRUTH,
    UNITS,
    as_probes,
    device_with,
    read_probes,
    write_run,
)

GPU = device_with(4.4e12)
NAME = "gemm.made.bf16"


def fitted(probes: Sequence[Probe], device: Device) -> dict[str, Ceiling]:
    """The constants of the one pair there is, by their last names."""
    constants = fit(probes, device, np.random.default_rng(0)).constants
    return {name.removeprefix(f"{NAME}."): constant for name, constant in constants.items()}


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("cores", [2, 64])
def test_a_cpu_reaches_the_rate_of_all_its_cores(tmp_path: Path, cores: int) -> None:
    probes = read_probes(write_run(tmp_path, family="plain"), "probe_math")
    processor = device_with(vendor="cpu", compute_units=cores)
    constants = fitted(probes, processor)
    assert constants["tile_family"].evidence == "cross-validation: plain"
    assert set(constants) >= set(PLAIN_CONSTANTS)
    assert "wave_s" not in constants
    rate = cores * constants["tile_flops_per_s"].value
    assert rate == pytest.approx(UNITS * TRUTH["tile_flops_per_s"], rel=0.05)


@pytest.mark.parametrize("units", [2, 64])
def test_a_cpu_of_any_size_has_no_tiles(units: int) -> None:
    processor = device_with(vendor="cpu", compute_units=units)
    families = PROBLEM.of([], processor).families
    assert "plain" in families
    assert not any(FAMILIES[name].tiles or FAMILIES[name].rule for name in families)
    assert not any(FAMILIES[name].is_plain for name in PROBLEM.of([], GPU).families)


@pytest.mark.usefixtures("few_resamples")
@pytest.mark.parametrize("recipe", ["fp32", "fp8_tensorwise"])
def test_a_cpu_that_packs_its_operands_is_told_apart(tmp_path: Path, recipe: str) -> None:
    truth = PACKED_TRUTH | {"pack_a_bytes_per_s": 2e12, "pack_b_bytes_per_s": 5e11}
    probe_runs.write_products(tmp_path, probe_runs.products("packed", recipe, truth=truth))
    probes = read_probes(tmp_path, "probe_math")
    result = fit(probes, device_with(4e12, vendor="cpu"), np.random.default_rng(0))
    constants = {name.rpartition(".")[2]: value for name, value in result.constants.items()}
    assert constants["tile_family"].evidence.startswith("cross-validation: packed")
    assert result.errors[f"gemm.made.{recipe}"]["mape"] < 0.03
    rate = constants["pack_b_bytes_per_s"].value
    assert rate == pytest.approx(truth["pack_b_bytes_per_s"], rel=0.1)


@pytest.mark.usefixtures("few_resamples")
def test_a_slow_path_of_too_few_probes_stays_unknown_in_every_resample(tmp_path: Path) -> None:
    """A resample that draws one of three probes twice has four, and no start to search from."""
    rows = probe_runs.products("tile_128x128", count=27)
    odd = [
        (replace(point, shape={**point.shape, "n": 8 * i + 1}), 1e-4)
        for i, (point, _) in enumerate(rows[24:])
    ]
    probe_runs.write_products(tmp_path, rows[:24] + odd)
    constants = fitted(read_probes(tmp_path, "probe_math"), GPU)
    assert "launch_s" in constants
    assert "k_latency_odd_s_per_byte" not in constants


@pytest.mark.usefixtures("few_resamples")
def test_a_constant_that_the_probes_do_not_identify_is_left_out_and_named(tmp_path: Path) -> None:
    """Operands load so fast here that no probe tells how fast."""
    truth = TRUTH | {"l2_bytes_per_s": 1e21}
    probe_runs.write_products(tmp_path, probe_runs.products("tile_128x128", truth=truth))
    constants = fitted(read_probes(tmp_path, "probe_math"), GPU)
    assert "l2_bytes_per_s" not in constants
    assert "not identified, left out: " in constants["tile_family"].evidence
    assert "l2_bytes_per_s" in constants["tile_family"].evidence
    rate = constants["sustained_flops_per_s"].value
    assert rate == pytest.approx(TRUTH["sustained_flops_per_s"], rel=0.1)


def test_families_that_contradict_the_names_of_kernels_are_left_out(tmp_path: Path) -> None:
    probes = read_probes(write_run(tmp_path), "probe_math")

    def families(*names: str) -> list[str]:
        named = [
            replace(probe, measurement=replace(probe.measurement, kernel_names=(name,)))
            for probe, name in zip(probes, names * len(probes), strict=False)
        ]
        return list(Products(probes=named, device=GPU).families)

    one = "nvjet_sm90_qqtst_128x128_128x6_2x1_v_bz_ovscale_TNT"
    other = "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN"
    assert families(one) == ["tile_128x128"]
    assert families(one, other) == ["any_tile"]
    split = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_splitK_TNT"
    assert families(one, split) == ["any_tile_split_k"]
    assert len(families("gemm")) == len([f for f in FAMILIES.values() if f.tiles])


@pytest.mark.parametrize(
    ("recipe", "family"),
    [
        ("fp8_axiswise", "ours_fast"),
        ("fp8_blockwise_128x128", "ours_blocks"),
        ("fp8_axiswise_slow_accum", "ours_slow"),
    ],
)
def test_our_kernels_have_the_tiles_of_their_rule(recipe: str, family: str) -> None:
    rows = probe_runs.products("tile_128x128", count=3)
    ours = [(replace(point, provider="triton", recipe=recipe), t) for point, t in rows]
    assert Products(probes=as_probes(ours), device=GPU).families[0] == family


@pytest.mark.parametrize("family", [name for name in FAMILIES if not FAMILIES[name].is_plain])
def test_candidates_that_are_left_out_are_best_by_no_fit(family: str) -> None:
    """Fits scatter by factors of up to three, as those of a block do while they are far off."""
    generator = np.random.default_rng(3)
    m, n, k = np.exp(generator.uniform(np.log(8), np.log(16384), (3, 40))).round()
    choices = describe("bf16", m, n, k, family, UNITS).choices
    candidates = candidates_of(choices)
    scattered = {
        name: np.full((40, 1), np.nan)
        if name == model.SLOW_LATENCIES["odd"]  # as where no probe has such rows
        else value * 3 ** generator.uniform(-1, 1, (40, 1))
        for name, value in (model.NEUTRAL | TRUTH).items()
    }
    _, _, seconds = model.choice_seconds(scattered, candidates.choices)
    best = candidates.best(scattered)
    for fit_number, places in enumerate(best):
        least = np.minimum.reduceat(seconds[fit_number], candidates.first)
        assert (seconds[fit_number, places] == least).all()
