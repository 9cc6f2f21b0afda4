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


@pytest.fixture
def device() -> torch.device:
    """Where kernels run in this process."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
