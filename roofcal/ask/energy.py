"""Joules and dollars per token, from predicted times: of the board by NVML, at full power.

A time is multiplied by the most power that products of any recipe sustain on the card; without a
calibration, by the power limit of the datasheet. Other work takes less power, so this is no bound;
of datasheet and wave, which state a least time, it is the least at full power.
"""

from dataclasses import dataclass
from typing import Final

from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources

_JOULES_PER_KWH: Final = 3.6e6
_SECONDS_PER_HOUR: Final = 3600.0
LABEL: Final = "about, at full power; board power by NVML, not the wall"
LEAST_LABEL: Final = "at least, if at full power; board power by NVML, not the wall"
_LEAST_TIMES: Final = ("datasheet", "wave")  # models of least times, which hardly any kernel beats


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What people pay, in dollars (or any currency): per kWh of the boards, and per GPU hour."""

    per_kwh: float | None = None
    per_hour: float | None = None


def asked_prices(energy: bool, per_kwh: float | None, per_hour: float | None) -> Prices | None:
    """The prices; None where nobody asked for energy or gave one."""
    prices = Prices(per_kwh=per_kwh, per_hour=per_hour)
    return prices if energy or prices != Prices() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """What one token takes.

    watts_by  what the power of a board is taken from
    dollars, tokens_per_dollar  None without a price
    """

    joules: float
    watts: float
    watts_by: str
    dollars: float | None
    tokens_per_dollar: float | None
    label: str

    @property
    def basis(self) -> str:
        """What the figures are of."""
        return f"{self.label}: {self.watts:.0f} W, {self.watts_by}"

    @property
    def text(self) -> str:
        """The cost in one line."""
        words = f"{self.joules:.3g} J per token"
        if self.dollars is not None and self.tokens_per_dollar is not None:
            words += f", {1e6 * self.dollars:.3g} $ per million tokens"
            words += f", {self.tokens_per_dollar:.3g} tokens per $"
        return f"{words} ({self.basis})"


def token_cost(sources: Sources, gpu_seconds: float, prices: Prices, model: str) -> TokenCost:
    """The cost of a token that keeps a GPU, or several together, for so many GPU seconds.

    model: the model of time that predicted them.

    Raises PredictError where neither a calibration nor a datasheet has a power.
    """
    constants = sources.calibration.constants if sources.calibration else {}
    sustained = [c.value for name, c in constants.items() if name.endswith(".sustained_power_w")]
    if sustained:
        watts, watts_by = max(sustained), "the most that products sustain on the card"
    elif sources.spec is not None:
        watts, watts_by = sources.spec.power_limit_w, "power limit of the datasheet"
    else:
        raise PredictError("neither the calibration nor a file of config/devices has a power")
    joules = watts * gpu_seconds
    dollars = None
    if prices.per_kwh is not None or prices.per_hour is not None:
        dollars = joules / _JOULES_PER_KWH * (prices.per_kwh or 0.0)
        dollars += gpu_seconds / _SECONDS_PER_HOUR * (prices.per_hour or 0.0)
    return TokenCost(
        joules=joules,
        watts=watts,
        watts_by=watts_by,
        dollars=dollars,
        tokens_per_dollar=1 / dollars if dollars else None,
        label=LEAST_LABEL if model in _LEAST_TIMES else LABEL,
    )
