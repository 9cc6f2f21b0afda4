"""The fit of narrow weights: the roof that binds is found again, few probes are left alone."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml

from roofcal.core.records import Ceiling, Protocol
from roofcal.fitting.probes import Device, Fitted, Probe
from roofcal.ops.mixed_gemm.fit import NarrowProducts, fit
from roofcal.ops.mixed_gemm.model import FAMILIES, evaluate
from tests.paths import ROOT
from tests.roofcal.calibrate import probe_runs
from tests.roofcal.calibrate.probe_runs import read_probes
from tests.roofcal.made_up_records import exactly

RECIPE, OTHER = "int4_groupwise_g64", "int4_groupwise_g32"
GPU = probe_runs.device_with(4e12)
PLAIN = "no_blocks"
TILED = "tiles"
MEMORY = {"fixed_s": 2e-6, "bytes_per_s": 3.6e12, "weights_per_s": 3e13, "flops_per_s": 6e14}
SLOTS = {"fixed_s": 2e-6, "bytes_per_s": 3.6e12, "weights_per_s": 2e12, "flops_per_s": 6e14}
BLOCKS = SLOTS | {"weights_per_s": 7e12, "block_columns": 1500.0}
OURS = {"bytes_per_s": 3.9e12, "weights_per_s": 1.2e13, "flops_per_s": 6e14}
OURS |= {"waiting_s": 8e-8, "slot_s": 6e-8, "ragged": 0.4, "turn_s": 2e-6}
OURS |= {"joining_s": 1e-6, "unit_s": 5e-7, "direct_s": 2e-6}


pytestmark = pytest.mark.usefixtures("few_resamples")


def seconds(
    truth: dict[str, float], sizes: np.ndarray, family: str = PLAIN, recipe: str = RECIPE
) -> np.ndarray:
    m, n, k = sizes.T
    return evaluate(truth, family, recipe, (m, n, k), GPU.compute_units).total


def sizes(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    tokens = np.round(np.exp(source.uniform(0, 5.5, count)))
    n, k = (1024 * np.ceil(np.exp(source.uniform(0, 3.4, count))) for _ in range(2))
    return np.stack([tokens, n, k], axis=1)


def probes_of(
    folder: Path,
    truths: dict[str, dict[str, float]],
    count: int = 24,
    noise: float = 0.02,
    family: str = PLAIN,
    drawn: np.ndarray | None = None,
) -> list[Probe]:
    """Probes of a provider whose recipes have these constants."""
    drawn = sizes(count, 5) if drawn is None else drawn
    named = [dict(zip("mnk", (int(s) for s in size), strict=True)) for size in drawn]
    rows = []
    for recipe, truth in truths.items():
        points = [probe_runs._point("probe_mixed_gemm", recipe, size, Protocol()) for size in named]
        rows += list(zip(points, seconds(truth, drawn, family, recipe).tolist(), strict=True))
    folder.mkdir(exist_ok=True)
    probe_runs._write(folder, "probe_mixed_gemm", rows, noise, np.random.default_rng(1))
    return read_probes(folder, "probe_mixed_gemm")


class Result(NamedTuple):
    """What was fitted to one recipe of a provider."""

    family: str
    constants: dict[str, Ceiling]
    errors: dict[str, float]


def result_of(result: Fitted, recipe: str = RECIPE, provider: str = "made") -> Result:
    pair = f"mixed_gemm.{provider}.{recipe}"
    named = {
        name.removeprefix(f"{pair}."): constant
        for name, constant in result.constants.items()
        if name.startswith(f"{pair}.")
    }
    family = list(FAMILIES)[int(named.pop("narrow_family").value)]
    return Result(family, named, result.errors[pair])


def fitted(probes: list[Probe], device: Device = GPU) -> Fitted:
    return fit(probes, device, np.random.default_rng(0))


@pytest.mark.parametrize("binding", ["bytes_per_s", "flops_per_s"])
def test_the_roof_that_binds_is_found_again(tmp_path: Path, binding: str) -> None:
    truth = MEMORY | {"flops_per_s": 2e13 if binding == "flops_per_s" else 6e14}
    result = result_of(fitted(probes_of(tmp_path, {RECIPE: truth})))
    assert result.family == PLAIN
    constant = result.constants[binding]
    assert constant.value == pytest.approx(truth[binding], rel=0.1)
    assert constant.ci95_low <= constant.value <= constant.ci95_high
    assert result.errors["mape"] < 0.06


def test_weights_that_become_bf16_first_cost_a_pass_and_the_librarys_product(
    tmp_path: Path,
) -> None:
    """Few tokens tell no rate of the product: it is that of the fastest probe of op gemm."""
    known = {"gemm.cublaslt.bf16.ceiling_flops_per_s": exactly(6e14, "flop/s")}
    device = replace(GPU, constants={**GPU.constants, **known})
    truth = {"fixed_s": 2e-6, "bytes_per_s": 4e12, "pass_bytes_per_s": 3e12, "flops_per_s": 6e14}
    drawn = sizes(16, 5)
    drawn[:, 0] = np.minimum(drawn[:, 0], 64)
    recipe, provider = "fp8_weight_only", "torch_compile"
    made = probes_of(tmp_path, {recipe: truth}, family="converted", drawn=drawn)
    named = [replace(probe, point=replace(probe.point, provider=provider)) for probe in made]
    result = result_of(fitted(named, device), recipe, provider)
    assert result.family == "converted"
    assert result.constants["pass_bytes_per_s"].value == pytest.approx(3e12, rel=0.1)
    for name in ("bytes_per_s", "flops_per_s"):
        assert result.constants[name].value == pytest.approx(truth[name])
    told = "gemm.cublaslt.bf16.ceiling_flops_per_s"
    assert result.constants["flops_per_s"] == replace(known[told], evidence=f"as {told}")


def test_tiles_of_rows_are_found_with_what_a_block_costs(tmp_path: Path) -> None:
    untuned = [
        replace(
            probe,
            point=replace(probe.point, provider="triton"),
            measurement=replace(probe.measurement, kernel_names=("_int4_plain_kernel",)),
        )
        for probe in probes_of(tmp_path, {RECIPE: BLOCKS}, family=TILED)
    ]
    result = result_of(fitted(untuned), provider="triton")
    assert FAMILIES[result.family].splits
    assert result.constants["block_columns"].value == pytest.approx(1500, rel=0.3)
    assert result.constants["weights_per_s"].value == pytest.approx(7e12, rel=0.15)


@pytest.mark.parametrize(
    ("provider", "family"), [("triton", "ours"), ("triton_chained", "ours_chained")]
)
def test_what_our_kernels_cost_is_found_again(tmp_path: Path, provider: str, family: str) -> None:
    probes = [
        replace(probe, point=replace(probe.point, provider=provider))
        for probe in probes_of(tmp_path, {RECIPE: OURS, OTHER: OURS}, 40, 0.01, family)
    ]
    result = result_of(fitted(probes), provider=provider)
    assert result.family == family
    for name in ("weights_per_s", "flops_per_s", "turn_s", "waiting_s"):
        assert result.constants[name].value == pytest.approx(OURS[name], rel=0.2)
    assert result.errors["mape"] < 0.03


def test_the_probes_of_many_tokens_tell_what_the_specialised_kernel_costs(tmp_path: Path) -> None:
    config = yaml.safe_load((ROOT / "config/sweeps/probe_mixed_gemm.yaml").read_text())
    drawn = np.array(config["sweeps"]["many_tokens_standard"]["shapes"], dtype=float)
    family, provider, g128 = "ours_specialised", "triton_specialised", "int4_groupwise_g128"
    truth = OURS | {"bytes_per_s": 3.6e12, "weights_per_s": 5e13, "turn_s": 4e-6}
    made = probes_of(tmp_path, {RECIPE: truth, g128: truth}, 0, 0.01, family, drawn)
    probes = [replace(probe, point=replace(probe.point, provider=provider)) for probe in made]
    result = result_of(fitted(probes), g128, provider)
    assert result.family == family
    flops = result.constants["flops_per_s"].value
    assert flops == pytest.approx(truth["flops_per_s"], rel=0.15)
    assert result.errors["mape"] < 0.03
    values = {name: result.constants[name].value for name in FAMILIES[family].constants}
    unseen = sizes(80, 99)
    unseen[:, 0] += 16
    errors = np.abs(np.log(seconds(values, unseen, family) / seconds(truth, unseen, family)))
    assert errors.mean() < 0.08
    assert errors.max() < 0.35  # of a few microseconds


def test_recipes_of_a_provider_share_what_does_not_depend_on_their_weights(tmp_path: Path) -> None:
    truths = {RECIPE: SLOTS, OTHER: SLOTS | {"weights_per_s": 1e12}}
    processor = probe_runs.device_with(4e12, vendor="cpu")
    result = fitted(probes_of(tmp_path, truths, family="turned_once"), processor)
    both, other = (result_of(result, recipe) for recipe in (RECIPE, OTHER))
    for name in ("fixed_s", "bytes_per_s"):
        assert both.constants[name] == replace(
            other.constants[name], evidence=both.constants[name].evidence
        )
    assert both.constants["weights_per_s"].value == pytest.approx(2e12, rel=0.05)
    assert other.constants["weights_per_s"].value == pytest.approx(1e12, rel=0.05)
    assert both.errors["count"] == 24


def test_our_kernels_have_their_blocks_and_processors_have_none(tmp_path: Path) -> None:
    (probe, *_) = probes_of(tmp_path, {RECIPE: MEMORY}, count=1)

    def families(provider: str, device: Device = GPU) -> list[str]:
        named = replace(probe, point=replace(probe.point, provider=provider))
        return list(NarrowProducts(probes=[named], device=device).families)

    assert families("tinygemm") == [PLAIN]
    assert families("torch_compile") == ["converted"]
    assert families("triton") == ["ours"]
    assert families("triton_chained") == ["ours_chained"]
    assert families("triton_specialised") == ["ours_specialised"]
    plain = replace(probe.measurement, kernel_names=("_int4_plain_kernel",))
    ours = replace(probe.point, provider="triton")
    untuned = replace(probe, point=ours, measurement=plain)
    assert NarrowProducts(probes=[untuned], device=GPU).families == [TILED]
    processor = probe_runs.device_with(4e12, vendor="cpu")
    assert families("tinygemm", processor) == ["turned_once", "blocks_of_4"]


def test_a_processor_that_turns_weights_once_per_four_rows_is_told_apart(tmp_path: Path) -> None:
    processor = probe_runs.device_with(4e12, vendor="cpu")
    slots = SLOTS | {"weights_per_s": 1e12}
    for family in ("turned_once", "blocks_of_4"):
        probes = probes_of(tmp_path / family, {RECIPE: slots}, family=family)
        assert result_of(fitted(probes, processor)).family == family
