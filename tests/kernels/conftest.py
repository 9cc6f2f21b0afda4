"""Kernels run where tests/interpreted.py says, and decide anew how."""

import pytest
import torch

import tests.interpreted  # noqa: F401


@pytest.fixture(autouse=True)
def _decide_anew(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is replayed: tests replace configurations, of which recordings know nothing.

    Tests of replays and of linears, which depend on them, are left alone.
    """
    from kernels.common import replay

    if not any(word in request.module.__name__ for word in ("replay", "kernels.linear")):
        monkeypatch.setattr(replay, "_is_called_as_it_is", lambda _: True)


@pytest.fixture
def device() -> torch.device:
    """Where kernels run in this process."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
