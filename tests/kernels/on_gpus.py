"""Tensors that say that they lie on a GPU, where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

H200 = SimpleNamespace(multi_processor_count=132)  # as torch.cuda.get_device_properties has it


class OnGpu:
    """A tensor, as far as questions about its architecture go."""

    is_cuda = True
    device = torch.device("cuda:0")

    def get_device(self) -> int:
        return 0


class TensorOnGpu1(torch.Tensor):
    """Memory where it is; it says that this is the second GPU."""

    is_cuda = True

    def get_device(self) -> int:
        return 1


def two_gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """[the current device], of a machine that is said to have two."""
    current = [0]

    @contextmanager
    def device(number: int) -> Iterator[None]:
        before, current[0] = current[0], number
        yield
        current[0] = before

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    return current
