"""The timing protocol: what a study says about how its points are timed."""

from typing import Annotated

from pydantic import Field, model_validator

from roofcal.core.yaml_files import Strict

Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True, gt=0, le=1_000_000)]


class Timing(Strict):
    """How long a visit to a point times it, and when it is good enough. Durations in seconds.

    settle_min_s     warm-up of a group of contenders: at least
    settle_max_s     at most, per contender
    settle_tolerance three rounds in a row whose medians differ by less count as settled
    slice_s          one contender's turn; contenders of a shape alternate slice by slice
    power_turn_s     one contender's turn in a group that is at the power limit of its card
    power_skip_s     the start of such a turn, which is recorded and not counted: the clock is still
                     that of the contender before, see roofcal.measure.interleave
    power_rounds     least number of such turns in a visit
    alone_turn_s     a turn of method `alone`: one contender without others, settled
    burst_rest_s     rest of the card before each turn of method `burst`
    burst_s          that turn
    budget_s         most time spent timing one contender after it has settled
    target_interval  stop when half the 95 % interval of the median is below this fraction
    min_samples      fewest settled samples
    min_rounds       fewest turns they come from: samples of one turn share one state of the card
    sample_s         shortest duration of one sample; short kernels are repeated within it
    visits           visits of every point: passes over the plan, each in another order
    most_visits      largest number of visits of a point, if its visits disagree
    visit_tolerance  another visit while the standard error of their mean is above this fraction
    more_visits      most time of all further visits, as a fraction of the time of the passes
    warm_card_s      load before the first point, until the card is at its working temperature; of
                     a CPU 0.3 s at most
    point_timeout_s  a contender that takes longer is killed and recorded as `timeout`
    """

    settle_min_s: Seconds = 0.3
    settle_max_s: Seconds = 0.6
    settle_tolerance: Seconds = 0.01
    slice_s: Seconds = 0.02
    power_turn_s: Seconds = 0.4
    power_skip_s: Seconds = 0.3
    power_rounds: Count = 1
    alone_turn_s: Seconds = 0.5
    burst_rest_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 2.0
    burst_s: Seconds = 0.02
    budget_s: Seconds = 0.4
    target_interval: Annotated[float, Field(gt=0, lt=1)] = 0.01
    min_samples: Count = 15
    min_rounds: Count = 4
    sample_s: Seconds = 0.001
    visits: Count = 2
    most_visits: Count = 4
    visit_tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.01
    more_visits: Annotated[float, Field(ge=0, le=10)] = 0.25
    warm_card_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 5.0
    point_timeout_s: Seconds = 120.0

    @model_validator(mode="after")
    def _fits_together(self) -> "Timing":
        if self.power_skip_s >= self.power_turn_s:
            raise ValueError(f"power_skip_s is {self.power_skip_s:g}, not below power_turn_s")
        if self.most_visits < self.visits:
            raise ValueError(f"most_visits is {self.most_visits}, below visits ({self.visits})")
        return self
