"""Kernels run on the GPU where there is one, else in Triton's interpreter.

Triton chooses when @triton.jit decorates a kernel, so the choice is made here, before any import.
"""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    from tests.kernels import faithful

    faithful.install()


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
