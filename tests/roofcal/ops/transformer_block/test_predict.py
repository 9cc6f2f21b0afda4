"""No calibrated model answers for a block, and says why; the datasheet does."""

import pytest

from roofcal.ask.devices import device_sources
from roofcal.ask.points import predict_point
from roofcal.core.records import PlanPoint
from roofcal.models.errors import PredictError
from tests.roofcal.ops.transformer_block.test_spec import TINY


def point() -> PlanPoint:
    names = {"op": "transformer_block", "provider": "", "recipe": "bf16", "device": "nvidia-h200"}
    return PlanPoint(**names, shape=TINY)  # type: ignore[arg-type]


def test_without_probes_of_attention_there_is_no_calibrated_answer() -> None:
    sources, _ = device_sources("nvidia-h200", None, "calibrated")
    with pytest.raises(PredictError, match="no probe says how fast attention is; ask for its lin"):
        predict_point(point(), "calibrated", sources)


def test_the_datasheet_answers_by_the_least_work() -> None:
    sources, _ = device_sources("nvidia-h200", None, "datasheet")
    assert predict_point(point(), "datasheet", sources).seconds > 0
