"""The streams against torch on ragged and tiny lengths, in the interpreter or on the GPU."""

import pytest
import torch

from kernels.common.configs import COPY, FILL, READ
from kernels.streams import memory as memory_stream

LENGTHS = [1, 3, 1023, COPY.block, FILL.block + 1, 3 * READ.block - 5]


@pytest.mark.parametrize("length", LENGTHS)
def test_read_sum_is_the_sum_in_float64(length: int, device: torch.device) -> None:
    src = torch.randn(length, device=device)
    total = memory_stream.read_sum(src).double().sum()
    reference = memory_stream.read_sum_reference(src)
    assert abs(float(total - reference)) <= 1e-6 * float(src.double().norm()) * length**0.5


@pytest.mark.parametrize("length", LENGTHS)
def test_fill_writes_every_element_and_nothing_beyond(length: int, device: torch.device) -> None:
    memory = torch.full((length + 7,), float("nan"), device=device)
    memory_stream.fill(memory[:length], 2.5)
    assert torch.equal(memory[:length], torch.full((length,), 2.5, device=device))
    assert memory[length:].isnan().all()


@pytest.mark.parametrize("length", LENGTHS)
def test_copy_copies_every_element_and_nothing_beyond(length: int, device: torch.device) -> None:
    src = torch.randn(length, device=device)
    memory = torch.full((length + 7,), float("nan"), device=device)
    memory_stream.copy(src, memory[:length])
    assert torch.equal(memory[:length], src)
    assert memory[length:].isnan().all()


def test_empty_vectors_are_left_alone(device: torch.device) -> None:
    nothing = torch.empty(0, device=device)
    assert memory_stream.copy(nothing, nothing.clone()).numel() == 0
    assert memory_stream.fill(nothing, 1.0).numel() == 0
    assert float(memory_stream.read_sum(nothing).sum()) == 0.0


@pytest.mark.parametrize(
    "bad", [torch.zeros(4, dtype=torch.bfloat16), torch.zeros(2, 2), torch.zeros(8)[::2]]
)
def test_other_inputs_are_refused(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="contiguous fp32 vector"):
        memory_stream.read_sum(bad)


def test_copy_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="equal lengths, got 3 and 4"):
        memory_stream.copy(torch.zeros(3), torch.zeros(4))


@pytest.mark.gpu
def test_a_gigabyte_and_a_bit_is_copied_whole() -> None:
    src = torch.randn((1 << 28) + 3, device="cuda")
    assert torch.equal(memory_stream.copy(src, torch.empty_like(src)), src)
    total = memory_stream.read_sum(src).double().sum()
    reference = memory_stream.read_sum_reference(src)
    assert abs(float(total - reference)) < 1e-3 * float(src.double().norm())
