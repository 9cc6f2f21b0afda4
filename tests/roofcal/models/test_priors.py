"""config/priors: which cards it holds, and what they answer for a device that nobody measured."""

import numpy as np
import pytest

from roofcal.ask.devices import datasheet
from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration
from roofcal.models import calibrated
from roofcal.models.priors import BETWEEN, calibration_by_priors, cards_like, priors_file
from roofcal.ops.constants import current_equations
from roofcal.ops.time_models import Sources
from tests.roofcal.models.runs import product


def described(device: str) -> DeviceSpec:
    spec = datasheet(device)
    assert spec is not None
    return spec


def test_the_file_of_an_architecture_holds_published_cards_of_the_present_equations() -> None:
    cards = cards_like(described("nvidia-h100-nvl"))
    assert {card.device for card in cards} == {"nvidia-h100-sxm", "nvidia-h200"}
    for card in cards:
        again = f"{priors_file(described(card.device))}: run: python tools/write_priors.py"
        assert card.equations == current_equations(), again
        assert card.environment_id != BETWEEN
        stream = card.constants["dram_read_bytes_per_s"].value
        assert 0.5 < stream < 1.0  # a fraction of the datasheet's


def test_without_a_datasheet_or_a_file_there_is_no_card() -> None:
    assert cards_like(None) == []
    a100 = described("nvidia-a100-sxm-80gb")
    assert not priors_file(a100).is_file()
    assert cards_like(a100) == []
    assert calibration_by_priors(a100) is None


@pytest.mark.parametrize("device", ["nvidia-h100-nvl", "nvidia-h100-pcie", "nvidia-h200-nvl"])
def test_a_card_that_nobody_measured_is_predicted_with_intervals_of_the_errors_between_cards(
    device: str,
) -> None:
    spec = described(device)
    calibration = calibration_by_priors(spec)
    assert calibration is not None
    between = read_records(priors_file(spec), Calibration)[-1]
    assert between.environment_id == BETWEEN
    assert calibration.probe_errors.items() <= between.probe_errors.items()
    sources = Sources(calibration=calibration, spec=spec)
    (known,) = calibrated.predict([product(8192, 4096, 4096)], sources)
    least = 2 * 8192 * 4096**2 / spec.peak_flops_per_s["bf16"]
    assert least < known.total_s < 2.5 * least
    assert known.low_s is not None
    assert known.high_s is not None
    widths = between.probe_errors["gemm.cublaslt.bf16"].values()
    half = np.log(known.high_s / known.low_s) / 2
    assert any(half == pytest.approx(width) for width in widths)
