"""What is said of architectures is said of every one, and which one a GPU has."""

from typing import Any

import pytest
import torch

from kernels.common import architecture
from kernels.common.architecture import ARCHITECTURES, SHARED_MEMORY_LIMIT


def test_every_architecture_has_a_limit_of_shared_memory() -> None:
    assert set(SHARED_MEMORY_LIMIT) == set(ARCHITECTURES)


class OnGpu:
    """A tensor of a GPU, as far as questions about its architecture go."""

    is_cuda = True
    device = torch.device("cuda:0")


QUESTIONS = ("has_ptx", "is_hopper", "has_tensor_memory_unit", "lacks_e4m3")


@pytest.mark.parametrize(
    ("capability", "answers"),
    [
        ((8, 0), (True, False, False, True)),
        ((8, 9), (True, False, False, False)),
        ((9, 0), (True, True, True, False)),
        ((10, 0), (True, False, True, False)),
        ((12, 0), (True, False, True, False)),
    ],
)
def test_a_compute_capability_says_what_a_gpu_has(
    capability: tuple[int, int], answers: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    x: Any = OnGpu()
    assert tuple(getattr(architecture, question)(x) for question in QUESTIONS) == answers


def test_amd_gpus_have_no_compute_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    x: Any = OnGpu()
    assert architecture.compute_capability(x) is None
    assert not any(getattr(architecture, question)(x) for question in QUESTIONS)


def test_the_interpreter_has_one_unit_and_no_hardware() -> None:
    x = torch.zeros(1)
    assert architecture.compute_units(x) == 1
    assert architecture.shared_memory_bytes(x) == 0
    assert not any(getattr(architecture, question)(x) for question in QUESTIONS)
