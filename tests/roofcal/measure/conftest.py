"""Fixtures of the tests of measuring."""

from pathlib import Path

import pytest
import torch

from roofcal.measure import timing
from tests.roofcal.measure.runs import Run, scripted
from tests.roofcal.measure.stand_in_cuda import StandInCuda


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run folder whose worker follows a script."""
    return scripted(monkeypatch, tmp_path)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StandInCuda:
    """A GPU that counts its calls, in place of torch.cuda."""
    stand_in = StandInCuda()
    monkeypatch.setattr(torch, "cuda", stand_in)
    monkeypatch.setattr(timing, "graph_kernel_names", lambda *_: ("the_kernel",))
    monkeypatch.setattr(timing, "_side_stream", stand_in.Stream)
    return stand_in
