"""What is said of architectures is said of every one, and which one a GPU has."""

from functools import partial
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


class Multiprocessors:
    multi_processor_count = 132


def test_a_call_overrules_the_limit_of_units_and_neither_exceeds_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: Multiprocessors)
    x: Any = OnGpu()
    assert architecture.compute_units(x) == 132
    architecture.limit_units(100)
    try:
        of_limit, of_call, of_gpu = (architecture.compute_units(x, n) for n in (None, 120, 500))
    finally:
        architecture.limit_units(None)
    assert (of_limit, of_call, of_gpu) == (100, 120, 132)
    assert architecture.compute_units(x) == 132


@pytest.mark.parametrize("wrong", [0, -3, True, 1.5])
def test_a_number_of_units_that_makes_no_sense_is_refused(wrong: Any) -> None:
    for take in (architecture.limit_units, partial(architecture.compute_units, torch.zeros(1))):
        with pytest.raises(ValueError, match=f"units: wanted a whole number .*, got {wrong}"):
            take(wrong)


def test_a_graph_does_not_set_the_limit() -> None:
    compiled = torch.compile(architecture.limit_units, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"limit_units: call it outside|Observed exception"):
        compiled(3)
    assert architecture.units_limit() is None
