"""The timing protocol: what a study says about how its points are timed."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(strict=True, gt=0)]


class Timing(BaseModel):
    """How long a point is timed, and when it is good enough. Durations in seconds.

    settle_*         warm-up of a group of contenders: at least / at most, per contender
    settle_tolerance three rounds in a row whose medians differ by less count as settled
    slice_s          one contender's turn; contenders of a shape alternate slice by slice
    budget_s         most time spent timing one contender after it has settled
    target_interval  stop when half the 95 % interval of the median is below this fraction
    min_samples      fewest settled samples
    min_rounds       fewest turns they come from: samples of one turn share one state of the card
    sample_s         shortest duration of one sample; short kernels are repeated within it
    warm_card_s      load before the first point, until the card is at its working temperature
    point_timeout_s  a contender that takes longer is killed and recorded as `timeout`
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    settle_min_s: Seconds = 0.15
    settle_max_s: Seconds = 0.6
    settle_tolerance: Seconds = 0.01
    slice_s: Seconds = 0.02
    budget_s: Seconds = 0.4
    target_interval: Annotated[float, Field(gt=0, lt=1)] = 0.01
    min_samples: Count = 15
    min_rounds: Count = 4
    sample_s: Seconds = 0.001
    warm_card_s: Annotated[float, Field(ge=0)] = 5.0
    point_timeout_s: Seconds = 120.0
