"""Flags that say how far an all-gather has come, and turns that never reset them.

Every rank counts its turns (calls) in device memory, `state[0]`. A flag holds the number of the
last turn whose chunk has arrived; whoever waits for turn t waits until flag - t >= 0 in 32-bit
arithmetic, which also holds when the count wraps. So nothing is reset, and a captured CUDA graph
counts on with every replay.

Rotation. In turn t, rank r pushes its shard into the slot r of every peer's buffer b. It may, once
peer p has finished the last turn that read b. With rotating buffers this needs no barrier: the
pushes of turn t begin when r has finished turn t - 1, for which p's flags of turn t - 1 had to
come; p began to push in turn t - 1 when it had finished turn t - 2; and b was last read in turn
t - 2 or before. What a rank writes into its own slot is ordered by its own stream, on which a turn
ends when its product and its pushes have ended.

The argument needs another buffer in every turn. A graph of an odd number of turns that is replayed
again, or that is mixed with eager turns, may use one twice running. `state[1]` holds the buffer of
the turn before; where it is the same, `begin` makes the ranks wait for each other first: each tells
all that it has finished the turn before. All ranks see the same, because they make the same calls.
Flags are compared modulo 2^32, so a wait is correct only if its flag was last written less than
2^31 turns ago: two and a half days of turns of 0.1 ms.
`forget_buffer` has the same effect, after turns that were not counted here.
"""

from typing import Final

import torch
import triton
import triton.language as tl

# Flags lie this many 32-bit words apart, a line of L2 each: programs that wait for one chunk do not
# ask for the line in which another chunk's flag is written.
FLAG_SPACING: Final = 32

# The flag is read with acquire, at system scope: a peer's copy engine writes it. What follows is
# read by the tensor memory unit, through another proxy, hence the fence (PTX ISA, fence.proxy).
_WAIT: tl.constexpr = tl.constexpr("""{
.reg .pred %arrived;
.reg .s32 %ahead;
again:
ld.acquire.sys.global.s32 %ahead, [$1];
sub.s32 %ahead, %ahead, $2;
setp.ge.s32 %arrived, %ahead, 0;
@%arrived bra there;
nanosleep.u32 64;
bra again;
there:
fence.proxy.async.global;
mov.u32 $0, 0;
}""")

_UNKNOWN: tl.constexpr = tl.constexpr(-2)  # the buffer of the turn before


@triton.jit
def wait_until(flag, turn, PTX: tl.constexpr):
    """0, once the flag has come to the turn; added to an address, it keeps loads behind the wait.

    PTX: for the tensor memory unit; else for ordinary loads, and for the interpreter.
    """
    if PTX:
        return tl.inline_asm_elementwise(
            _WAIT, "=r,l,r", [flag.to(tl.int64), turn], dtype=tl.int32, is_pure=False, pack=1
        )
    else:  # noqa: RET505 (both branches are traced without it)
        while tl.atomic_add(flag, 0, sem="acquire", scope="sys") - turn < 0:
            pass
        return 0


@triton.jit(do_not_specialize=["BUFFER", "RANK", "WORLD", "CHUNKS"])
def _begin_kernel(
    state, flags, finished, finished_of_peers, BUFFER, RANK, WORLD, CHUNKS, SPACING: tl.constexpr
):
    """One program. finished_of_peers: address of this rank's `finished` flag in each peer."""
    turn = tl.load(state) + 1
    before = tl.load(state + 1)
    if (before == BUFFER) | (before == _UNKNOWN):
        for peer in range(WORLD):
            address = tl.load(finished_of_peers + peer).to(tl.pointer_type(tl.int32))
            tl.atomic_xchg(address, turn - 1, sem="release", scope="sys")
        for peer in range(WORLD):
            wait_until(finished + peer * SPACING, turn - 1, False)
    tl.debug_barrier()  # all threads have read the state
    tl.store(state, turn)
    tl.store(state + 1, BUFFER)
    for chunk in range(CHUNKS):
        tl.store(flags + (RANK * CHUNKS + chunk) * SPACING, turn)


def new_state(device: torch.device) -> torch.Tensor:
    """[number of the last turn, its buffer], int32; the first turn, 2, waits for all ranks."""
    return torch.tensor([1, _UNKNOWN.value], dtype=torch.int32, device=device)


def buffer_before(state: torch.Tensor) -> torch.Tensor:
    """The part of the state that forget_buffer writes: a view, made once to spare the host."""
    return state[1:]


def forget_buffer(before: torch.Tensor) -> None:
    """Let the next turn wait for peers, whichever buffer it takes; on the current stream."""
    before.fill_(_UNKNOWN.value)


def begin(
    state: torch.Tensor,
    flags: torch.Tensor,
    finished: torch.Tensor,
    finished_of_peers: torch.Tensor,
    *,
    buffer: int,
    rank: int,
    chunks: int,
) -> None:
    """Count a turn on the current stream, and note that the own chunks are there.

    flags [world, chunks, FLAG_SPACING] and finished [world, FLAG_SPACING], int32, of this rank;
    finished_of_peers [world] int64, see the kernel.
    """
    _begin_kernel[(1,)](
        *(state, flags, finished, finished_of_peers),
        *(buffer, rank, finished_of_peers.numel(), chunks),
        SPACING=FLAG_SPACING,
        num_warps=1,
    )
