"""Joules and dollars per token: from the power that a card sustains."""

import json

import pytest

from roofcal.ask.energy import Prices, token_cost
from roofcal.cli.main import main
from roofcal.core.records import Calibration
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.made_up_records import exactly

CALIBRATED = Sources(
    calibration=Calibration(
        device="d",
        environment_id="e",
        constants={
            "gemm.a.bf16.sustained_power_w": exactly(540.0, "W"),
            "gemm.a.fp8.sustained_power_w": exactly(690.0, "W"),
            "sm_clock_hz": exactly(1e9, "Hz"),
        },
    ),
    spec=None,
)


def test_the_most_that_any_product_sustains_counts() -> None:
    assert token_cost(CALIBRATED, 1.0, Prices(), "calibrated").watts == 690.0
    with pytest.raises(PredictError, match="has a power"):
        token_cost(Sources(calibration=None, spec=None), 1.0, Prices(), "calibrated")


def test_a_token_costs_its_energy_and_its_share_of_the_hour() -> None:
    cost = token_cost(CALIBRATED, 3.6, Prices(per_kwh=0.5, per_hour=2.0), "calibrated")
    assert cost.joules == pytest.approx(690 * 3.6)
    assert cost.dollars == pytest.approx(690 * 3.6 / 3.6e6 * 0.5 + 0.002)
    assert cost.tokens_per_dollar == pytest.approx(1 / (690 * 3.6 / 3.6e6 * 0.5 + 0.002))
    assert "not the wall" in cost.text


def test_energy_is_no_upper_bound_and_of_a_least_time_the_least() -> None:
    said = {m: token_cost(CALIBRATED, 1.0, Prices(), m).text for m in ("calibrated", "wave")}
    assert "(about, at full power" in said["calibrated"]
    assert "(at least, if at full power" in said["wave"]


def test_without_a_price_there_are_joules_alone() -> None:
    cost = token_cost(CALIBRATED, 1.0, Prices(), "calibrated")
    assert (cost.dollars, cost.tokens_per_dollar) == (None, None)
    assert "$" not in cost.text
    free = token_cost(CALIBRATED, 1.0, Prices(per_kwh=0.0), "calibrated")
    assert (free.dollars, free.tokens_per_dollar) == (0.0, None)


def printed(capsys: pytest.CaptureFixture[str], asked: str) -> str:
    assert main(asked.split()) == 0
    return capsys.readouterr().out


def test_commands_say_energy_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    advise = "advise --device nvidia-h200 4096x7168x8192"
    for asked, name in ((advise, "bf16"), ("llm --device h200 --model llama3-8b", "decode")):
        answer = json.loads(printed(capsys, f"{asked} --json --energy --price-per-kwh 0.1"))
        own = answer["energy"][name]
        assert own["dollars"] == pytest.approx(own["joules"] / 3.6e6 * 0.1)
    assert "J per token" not in printed(capsys, "llm --device h200 --model llama3-8b")
    text = printed(capsys, f"{advise} --energy")
    table = text[text.index("J per token") :].splitlines()
    joules = [float(line.split()[1]) for line in table[1:-1]]
    assert len(joules) > 3
    assert joules == sorted(joules)
    assert text.count("board power by NVML") == 1
