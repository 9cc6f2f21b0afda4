"""Fixtures of the tests of measuring."""

import pytest
import torch

from roofcal.measure import timing
from tests.roofcal.measure.runs import run  # noqa: F401 (a fixture)
from tests.roofcal.measure.stand_in_cuda import StandInCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StandInCuda:
    """A GPU that counts its calls, in place of torch.cuda."""
    stand_in = StandInCuda()
    monkeypatch.setattr(torch, "cuda", stand_in)
    monkeypatch.setattr(timing, "graph_kernel_names", lambda *_: ("the_kernel",))
    monkeypatch.setattr(timing, "_side_stream", stand_in.Stream)
    return stand_in
