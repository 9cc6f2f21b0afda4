"""What lies where in a rank's memory; who pushes what to whom, in which order."""

import pytest
import torch

from kernels.gather import flags as arrival_flags
from kernels.gather.flags import FLAG_SPACING
from kernels.gather.plans import Gathered, chunks_of
from kernels.gather.pushes import Layout, Pushes, Slots, copies_of, peers_of

CPU = torch.device("cpu")
CUT = chunks_of(40, 16, 2)


def memory(world: int, dtype: torch.dtype) -> tuple[Slots, ...]:
    what = Gathered(world=world, shard_rows=40, k=16, n=8, dtype=dtype)
    layout = Layout(what, CUT, 2)
    return tuple(
        layout.slots(torch.zeros(layout.size_bytes, dtype=torch.uint8)) for _ in range(world)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("buffers", [2, 3])
def test_parts_do_not_overlap(dtype: torch.dtype, buffers: int) -> None:
    what = Gathered(world=3, shard_rows=50, k=48, n=8, dtype=dtype)
    layout = Layout(what, chunks_of(50, 16, 2), buffers)
    memory = torch.zeros(layout.size_bytes, dtype=torch.uint8)
    slots = layout.slots(memory)
    assert slots.flags.shape == (3, 2, FLAG_SPACING)
    assert slots.finished.shape == (3, FLAG_SPACING)
    assert [rows.shape for rows in slots.rows] == [(150, 48)] * buffers
    scaled = dtype.itemsize == 1
    assert [scales.shape for scales in slots.scales] == [(150,)] * (buffers * scaled)
    parts = [slots.flags, slots.finished, *slots.rows, *slots.scales]
    for part in parts:
        assert part.data_ptr() % 16 == memory.data_ptr() % 16
        assert not part.view(torch.uint8).any()
        part.view(torch.uint8).fill_(1)
    assert int(memory.sum()) == sum(part.numel() * part.element_size() for part in parts)


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_at_any_time_every_rank_sends_to_one_and_receives_from_one(world: int) -> None:
    orders = [peers_of(rank, world) for rank in range(world)]
    assert all(sorted(order) == sorted({*range(world)} - {r}) for r, order in enumerate(orders))
    for step in range(world - 1):
        assert sorted(order[step] for order in orders) == [*range(world)]


def test_a_rank_receives_in_the_order_in_which_it_multiplies() -> None:
    world = 5
    for rank in range(world):
        sent_at = {peer: peers_of(peer, world).index(rank) for peer in range(world) if peer != rank}
        arrival = sorted(sent_at, key=lambda peer: sent_at[peer])
        assert arrival == [(rank + step) % world for step in range(1, world)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_after_pushes_of_all_ranks_all_have_all_rows(dtype: torch.dtype) -> None:
    world = 3
    ranks = memory(world, dtype)
    for rank in range(world):
        own = slice(rank * 40, (rank + 1) * 40)
        ranks[rank].rows[1][own] = torch.full((40, 16), rank + 1.0).to(dtype)
        for scales in ranks[rank].scales[1:]:
            scales[own] = rank + 0.5
        state = torch.tensor([9 + rank, 1], dtype=torch.int32)
        pushes = Pushes(ranks, state, CUT, rank=rank)
        pushes.start(1)
        pushes.join()
    for rank in range(world):
        held = ranks[rank].rows[1].float().view(world, 40, 16)
        assert [part.unique().tolist() for part in held] == [[1.0], [2.0], [3.0]]
        assert not ranks[rank].rows[0].float().any()
        for scales in ranks[rank].scales[1:]:
            assert scales.view(world, 40)[:, 0].tolist() == [0.5, 1.5, 2.5]
        expected = [[9 + source] * 2 if source != rank else [0, 0] for source in range(world)]
        assert ranks[rank].flags[:, :, 0].tolist() == expected


def test_a_flag_follows_its_chunk_and_copies_are_contiguous() -> None:
    ranks = memory(2, torch.float8_e4m3fn)
    state = arrival_flags.new_state(CPU)
    pushed = [*copies_of(ranks, state, CUT, rank=1, buffer=0)]
    assert len(pushed) == CUT.count
    for chunk, (rows, *scales, flag) in enumerate(pushed):
        first, end = CUT.rows(chunk)
        assert rows[0].shape == (end - first, 16)
        # those of all rows, once, and before the first flag
        assert [target.shape for target, _ in scales] == [(40,)] * (chunk == 0)
        assert flag[0].data_ptr() == ranks[0].flags[1, chunk].data_ptr()
        assert flag[1].data_ptr() == state.data_ptr()
        assert all(x.is_contiguous() for copy in (rows, *scales, flag) for x in copy)
