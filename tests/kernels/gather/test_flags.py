"""A turn: counted, its own chunks marked, and peers awaited where a buffer comes twice running."""

import pytest
import torch

from kernels.gather import flags as arrival_flags
from kernels.gather.flags import FLAG_SPACING

WORLD, CHUNKS, RANK = 3, 2, 1


class Ranks:
    """The `finished` flags of all ranks, and one rank's flags and state."""

    def __init__(self, device: torch.device) -> None:
        options = {"dtype": torch.int32, "device": device}
        self.finished = torch.zeros(WORLD, WORLD, FLAG_SPACING, **options)  # type: ignore[call-overload]
        self.finished[RANK, :, 0] = 1  # the peers are there, for the first turn
        self.flags = torch.zeros(WORLD, CHUNKS, FLAG_SPACING, **options)  # type: ignore[call-overload]
        self.state = arrival_flags.new_state(device)
        addresses = [self.finished[peer, RANK].data_ptr() for peer in range(WORLD)]
        self.addresses = torch.tensor(addresses, device=device)

    def begin(self, buffer: int) -> None:
        arrival_flags.begin(
            *(self.state, self.flags, self.finished[RANK], self.addresses),
            buffer=buffer,
            rank=RANK,
            chunks=CHUNKS,
        )


def test_turns_are_counted_and_own_chunks_marked(device: torch.device) -> None:
    ranks = Ranks(device)
    for turn, buffer in enumerate((0, 1, 0, 1), start=2):
        ranks.begin(buffer)
        assert ranks.state.tolist() == [turn, buffer]
        assert ranks.flags[RANK, :, 0].tolist() == [turn] * CHUNKS
    assert int(ranks.flags.count_nonzero()) == CHUNKS
    # the first turn told peers; turns with another buffer need no barrier
    assert ranks.finished[:, RANK, 0].tolist() == [1] * WORLD


@pytest.mark.parametrize("forgotten", [False, True])
def test_the_same_buffer_twice_running_waits_for_peers_and_tells_them(
    forgotten: bool, device: torch.device
) -> None:
    ranks = Ranks(device)
    ranks.begin(0)
    ranks.finished[RANK, :, 0] = 2  # the peers have finished turn 2
    if forgotten:
        arrival_flags.forget_buffer(arrival_flags.buffer_before(ranks.state))
    ranks.begin(1 if forgotten else 0)
    assert ranks.state.tolist() == [3, int(forgotten)]
    assert ranks.finished[:, RANK, 0].tolist() == [2] * WORLD


@pytest.mark.parametrize("count", [2**31 - 2, -1])
def test_the_count_may_wrap(count: int, device: torch.device) -> None:
    ranks = Ranks(device)
    ranks.state[0] = count
    ranks.finished[RANK, :, 0] = count
    ranks.begin(0)
    ranks.finished[RANK, :, 0] = ranks.state[0]
    ranks.begin(0)
    expected = (count + 2 + 2**31) % 2**32 - 2**31
    assert ranks.state.tolist() == [expected, 0]
    assert ranks.flags[RANK, :, 0].tolist() == [expected] * CHUNKS
