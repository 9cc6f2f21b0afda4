"""The streams against torch on ragged and tiny lengths, in the interpreter or on the GPU."""

import pytest
import torch

from kernels.streams import memory
from kernels.streams.empty import empty
from kernels.streams.memory import COPY, FILL, READ

LENGTHS = [1, 3, 1023, COPY.block, FILL.block + 1, 3 * READ.block - 5]


@pytest.mark.parametrize("length", LENGTHS)
def test_read_sum_is_the_sum_in_float64(length: int, device: torch.device) -> None:
    src = torch.randn(length, device=device)
    total = memory.read_sum(src).double().sum()
    reference = src.double().sum()
    assert abs(float(total - reference)) <= 1e-6 * float(src.double().norm()) * length**0.5


@pytest.mark.parametrize("length", LENGTHS)
def test_fill_writes_every_element_and_nothing_beyond(length: int, device: torch.device) -> None:
    whole = torch.full((length + 7,), float("nan"), device=device)
    memory.fill(whole[:length], 2.5)
    assert torch.equal(whole[:length], torch.full((length,), 2.5, device=device))
    assert whole[length:].isnan().all()


@pytest.mark.parametrize("length", LENGTHS)
def test_copy_copies_every_element_and_nothing_beyond(length: int, device: torch.device) -> None:
    src = torch.randn(length, device=device)
    whole = torch.full((length + 7,), float("nan"), device=device)
    memory.copy(src, whole[:length])
    assert torch.equal(whole[:length], src)
    assert whole[length:].isnan().all()


def test_empty_vectors_are_left_alone(device: torch.device) -> None:
    nothing = torch.empty(0, device=device)
    assert memory.copy(nothing, nothing.clone()).numel() == 0
    assert memory.fill(nothing, 1.0).numel() == 0
    assert float(memory.read_sum(nothing).sum()) == 0.0


@pytest.mark.parametrize(
    "bad", [torch.zeros(4, dtype=torch.bfloat16), torch.zeros(2, 2), torch.zeros(8)[::2]]
)
def test_other_inputs_are_refused(bad: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="contiguous fp32 vector"):
        memory.read_sum(bad)


def test_copy_refuses_unequal_lengths() -> None:
    with pytest.raises(ValueError, match="equal lengths, got 3 and 4"):
        memory.copy(torch.zeros(3), torch.zeros(4))


@pytest.mark.gpu
def test_a_gigabyte_and_a_bit_is_copied_whole() -> None:
    src = torch.randn((1 << 28) + 3, device="cuda")
    assert torch.equal(memory.copy(src, torch.empty_like(src)), src)
    total = memory.read_sum(src).double().sum()
    reference = src.double().sum()
    assert abs(float(total - reference)) < 1e-3 * float(src.double().norm())


def test_an_empty_launch_has_one_program_at_least() -> None:
    empty(3)
    with pytest.raises(ValueError, match="at least one program, got 0"):
        empty(0)
