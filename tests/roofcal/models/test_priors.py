"""config/priors: which cards it holds."""

from roofcal.ask.devices import datasheet
from roofcal.core.devices import DeviceSpec
from roofcal.models.calibrations import BETWEEN, cards_like, priors_file
from roofcal.ops.constants import current_equations


def described(device: str) -> DeviceSpec:
    spec = datasheet(device)
    assert spec is not None
    return spec


def test_the_file_of_an_architecture_holds_published_cards_of_the_present_equations() -> None:
    assert cards_like(None) == []
    cards = cards_like(described("nvidia-h100-nvl"))
    assert {card.device for card in cards} == {"nvidia-h100-sxm", "nvidia-h200", "sm_90"}
    assert [card.device for card in cards if card.environment_id == BETWEEN] == ["sm_90"]
    for card in (card for card in cards if card.environment_id != BETWEEN):
        again = f"{priors_file(described(card.device))}: run: python -m tools.write_priors"
        assert card.equations == current_equations(), again
        stream = card.constants["dram_read_bytes_per_s"].value
        assert 0.5 < stream < 1.0  # a fraction of the datasheet's
