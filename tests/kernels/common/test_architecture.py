"""What is said of architectures is said of every one, and which one a GPU has."""

import threading
from functools import partial
from typing import Any

import pytest
import torch

from kernels.cast.both_ways import blockwise_1x128_both
from kernels.common import architecture
from kernels.common.architecture import ARCHITECTURES, SHARED_MEMORY_LIMIT
from tests.kernels.on_gpus import H200, OnGpu


def test_every_architecture_has_a_limit_of_shared_memory() -> None:
    assert set(SHARED_MEMORY_LIMIT) == set(ARCHITECTURES)


QUESTIONS = ("has_ptx", "is_hopper", "has_tensor_memory_unit", "lacks_e4m3")


@pytest.mark.parametrize(
    ("capability", "shared_bytes", "answers", "large"),
    [
        ((8, 0), 232448, (True, False, False, True), False),
        ((8, 9), 101376, (True, False, False, False), False),
        ((9, 0), 232448, (True, True, True, False), True),
        ((10, 0), 232448, (True, False, True, False), True),
        ((12, 0), 101376, (True, False, True, False), False),
    ],
)
def test_compute_capability_and_shared_memory_say_what_a_gpu_has(
    capability: tuple[int, int],
    shared_bytes: int,
    answers: tuple[bool, ...],
    large: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(architecture, "shared_memory_bytes", lambda _: shared_bytes)
    x: Any = OnGpu()
    assert tuple(getattr(architecture, question)(x) for question in QUESTIONS) == answers
    assert architecture.has_large_tiles(x) == large
    assert architecture.has_large_tiles(torch.zeros(1))


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


def test_a_call_overrules_the_limit_of_units_and_neither_exceeds_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: H200)
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


def test_every_thread_sets_its_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has, or torch has launched something in it, CUDA makes no descriptor in it."""
    set_in: list[int] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: set_in.append(threading.get_ident()))
    x: Any = OnGpu()

    def twice() -> None:
        for _ in range(2):
            with architecture.on_device_of(x):
                pass

    threads = [threading.Thread(target=twice) for _ in range(2)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(set_in) == 2


@pytest.mark.gpu
def test_a_thread_may_begin_with_a_kernel_that_takes_descriptors() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("casts by descriptors are for sm_90")
    x = torch.randn(256, 1024, device="cuda").to(torch.bfloat16)
    expected = blockwise_1x128_both(x)
    outputs: list[Any] = []
    thread = threading.Thread(target=lambda: outputs.append(blockwise_1x128_both(x)))
    thread.start()
    thread.join()
    (cast,) = outputs
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(cast, expected, strict=True))
