"""All-gather and matmul in one: the product begins while the rows of other ranks still travel.

    C[world * shard, N] bf16 = (gathered A [world * shard, K] @ W[N, K].T) * scale_a * scale_b

Every rank holds a shard of A's rows, and its own W. The producer of A writes into `own_shard()`, a
slot of a buffer that all ranks can address; a call pushes the slot to the peers by copy engines
(kernels.gather.pushes) while a persistent kernel multiplies what has arrived
(kernels.gather.product). Why no barrier is needed says kernels.gather.flags.

Pushes are issued before the product: whatever blocks the host in between (a module that is loaded,
memory that is taken back from a cache), no peer waits for what has not been issued.

Shards of fewer rows than a tile, and what a model of time expects to gain nothing, go by NCCL's
all-gather and a library's product instead: kernels.gather.plans says which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import distributed
from torch._C._distributed_c10d import AllgatherOptions
from torch.nn import functional

from kernels.common.architecture import compute_units, has_large_tiles, on_device_of
from kernels.common.checks import check_counts, dtype_names
from kernels.common.operators import untraced
from kernels.common.tiles import TMA_ALIGNMENT
from kernels.gather import flags as arrival_flags
from kernels.gather import plans, symmetric_memory
from kernels.gather import product as gathered_matmul
from kernels.gather.plans import Gathered, LinkTimes, Plan, ProductTimes
from kernels.gather.pushes import Layout, Pushes
from kernels.gemm.axiswise import gemm
from kernels.gemm.operands import new_output
from kernels.gemm.rule import GemmConfig

_WIDE: Final = (torch.bfloat16, torch.float16)
_FP8: Final = torch.float8_e4m3fn
_LIBRARY_COLUMNS: Final = 16  # torch._scaled_mm refuses weights of another multiple on GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What is chosen by the sizes where it is None.

    tile     of the product
    chunks   that a shard is cut into, at most
    link     what the links between these GPUs reach; None: H200s over NVLink
    product  what products reach on these GPUs; None: H200s
    units    multiprocessors that the product takes, the same on all ranks; None: what
             kernels.common.architecture.limit_units says when the object is made
    """

    tile: GemmConfig | None = None
    chunks: int | None = None
    link: LinkTimes | None = None
    product: ProductTimes | None = None
    units: int | None = None


class AllGatherMatmul:
    """A collective: all ranks of the group make it with the same sizes, and call it equally often.

    A call may be captured in a CUDA graph, any number of times, and mixed with eager calls. Calls
    of one object must follow each other: on one stream, or on streams that wait for each other.
    Raises ValueError for sizes or types that it does not take, before any rank waits for another,
    and NoPeerAccess (kernels.gather.symmetric_memory) where ranks cannot address each other's
    memory.
    """

    def __init__(
        self,
        group: distributed.ProcessGroup,
        shard_rows: int,
        k: int,
        n: int,
        dtype: torch.dtype,
        *,
        scaled: bool = False,
        buffers: int = 2,
        fused: bool | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        """shard_rows: of each rank; scaled: rows and columns have scales, as fp8 needs.

        fused: whether the product follows arrival; None: where kernels.gather.plans expects it
        to be faster, in graphs and in eager calls, which cost the host more. buffers: that take
        turns, two at least.
        """
        world = group.size()
        check_sizes(shard_rows, k, n, dtype, world=world, scaled=scaled, buffers=buffers)
        tuning = tuning or Tuning()
        self.what = Gathered(world=world, shard_rows=shard_rows, k=k, n=n, dtype=dtype)
        if fused is None and None in (tuning.link, tuning.product) and torch.cuda.is_available():
            plans.warn_of_defaults(torch.cuda.get_device_name())
        plan = _plan(self.what, tuning)
        if fused and plan is None:
            raise ValueError(
                f"shard_rows: wanted at least a tile's rows with fused=True, got {shard_rows}"
            )
        self._scaled, self._device = scaled, _device()
        self.fused = plan is not None and (plan.is_faster if fused is None else fused)
        self._way: _Fused | _Sequence
        if plan is not None and self.fused:
            eager = fused or plan.is_faster_eagerly
            self._way = _Fused(group, self.what, plan, buffers, eager=eager)
        else:
            self._way = _Sequence(group, self.what, scaled=scaled)

    def own_shard(self) -> torch.Tensor:
        """[shard_rows, k], into which this rank's rows of the next call are written.

        It belongs to that call alone: after it, ask again.
        """
        return self._way.own_rows()

    def own_scales(self) -> torch.Tensor | None:
        """[shard_rows, 1] fp32, the scales of these rows; None without scales."""
        return self._way.own_scales()[:, None] if self._scaled else None

    @untraced("AllGatherMatmul: a graph would keep the buffer of one turn")
    def __call__(
        self, weights: torch.Tensor, weight_scales: torch.Tensor | None = None
    ) -> torch.Tensor:
        """C [world * shard_rows, n] bf16 of weights [n, k] and their scales [1, n]; collective.

        Raises ValueError, before anything runs, for weights or scales that do not fit.
        """
        check_weights(self.what, weights, weight_scales, scaled=self._scaled, device=self._device)
        with on_device_of(weights):
            return self._way.multiplied(weights, weight_scales)


class GatheredRows:
    """A buffer with a slot of rows per rank: calls gather all slots in place and multiply them.

    The views that a call needs are made once. The host takes 6.5 to 23.4 us longer for an eager
    call of bf16 than for the two calls of a library that it consists of, and less for one of fp8
    (docs/kernels/eager_gathers.csv).
    """

    def __init__(
        self, group: distributed.ProcessGroup, rows: torch.Tensor, scales: torch.Tensor | None
    ) -> None:
        """Take rows [world * shard, k] and, of fp8 rows, scales [world * shard] fp32."""
        self._group, self._rows = group, rows
        self._row_scales = None if scales is None else scales[:, None]
        self._gathered = [rows.view(torch.uint8)]  # NCCL knows no fp8
        if scales is not None:
            self._gathered.append(scales)
        self._own = [x.chunk(group.size())[group.rank()] for x in self._gathered]
        self._options = AllgatherOptions()
        self._options.asyncOp = False

    def multiplied(self, weights: torch.Tensor, column_scales: torch.Tensor | None) -> torch.Tensor:
        """C [world * shard, n] bf16 of weights [n, k] and their scales [1, n]; collective.

        fp8 weights of columns that the library refuses are multiplied by kernels.gemm.axiswise.
        """
        self._gather()
        if self._row_scales is None or column_scales is None:
            c = functional.linear(self._rows, weights)
            return c if c.dtype == torch.bfloat16 else c.to(torch.bfloat16)
        if weights.shape[0] % _LIBRARY_COLUMNS:
            return gemm(self._rows, weights, self._row_scales, column_scales)
        return torch._scaled_mm(
            self._rows,
            weights.t(),
            scale_a=self._row_scales,
            scale_b=column_scales,
            out_dtype=torch.bfloat16,
            use_fast_accum=True,
        )

    def _gather(self) -> None:
        """Fill the slots of all ranks; NCCL starts once for rows and scales.

        By the group's own methods, because small products wait for the host, whom the checks of
        torch.distributed.all_gather_into_tensor, and its manager of several in one start, cost
        time (docs/kernels/eager_gathers.csv has what is left).
        """
        if len(self._gathered) > 1 and self._rows.is_cuda:
            works = [
                self._group.allgather_into_tensor_coalesced(
                    self._gathered, self._own, self._options
                )
            ]
        else:  # gloo gathers several in place wrongly
            pairs = zip(self._gathered, self._own, strict=True)
            works = [self._group._allgather_base(*pair, self._options) for pair in pairs]
        for work in works:
            if work is not None:
                work.wait()


class _Sequence:
    """NCCL's all-gather, in place, and then a library's product."""

    def __init__(self, group: distributed.ProcessGroup, what: Gathered, *, scaled: bool) -> None:
        rows, device = what.world * what.shard_rows, _device()
        self._rows = torch.zeros(rows, what.k, dtype=what.dtype, device=device)
        self._scales = torch.zeros(rows, dtype=torch.float32, device=device)
        self._gathered = GatheredRows(group, self._rows, self._scales if scaled else None)
        self._own = _own_rows(what, group.rank())

    def own_rows(self) -> torch.Tensor:
        return self._rows[self._own]

    def own_scales(self) -> torch.Tensor:
        return self._scales[self._own]

    def multiplied(self, weights: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
        return self._gathered.multiplied(weights, scales)


class _Fused:
    """The product that follows arrival; eager calls in sequence where `eager` is false.

    A turn in sequence takes its buffer like others. It tells peers nothing by flags, so a graph
    that was captured must not rely on them in its next turn: that is noted in the state.
    """

    def __init__(
        self,
        group: distributed.ProcessGroup,
        what: Gathered,
        plan: Plan,
        buffers: int,
        *,
        eager: bool,
    ) -> None:
        self._eager, self._captured = eager, False
        self._rank, self._own = group.rank(), _own_rows(what, group.rank())
        self._tile, self._cut, self._units = plan.tile, plan.cut, plan.units
        layout = Layout(what, self._cut, buffers)
        self._memory = symmetric_memory.allocate(layout.size_bytes, group)
        self._ranks = tuple(layout.slots(view) for view in self._memory.views)
        own = self._ranks[self._rank]
        scales = own.scales or (None,) * buffers
        self._gathered = [GatheredRows(group, *pair) for pair in zip(own.rows, scales, strict=True)]
        finished = [slots.finished[self._rank].data_ptr() for slots in self._ranks]
        self._finished_of_peers = torch.tensor(finished, device=own.finished.device)
        self._state = arrival_flags.new_state(self._finished_of_peers.device)
        self._buffer_before = arrival_flags.buffer_before(self._state)
        self._pushes = Pushes(self._ranks, self._state, self._cut, rank=self._rank)
        self._buffers, self._next = buffers, 0
        self._load(what)

    def _load(self, what: Gathered) -> None:
        """Launch both kernels once, with flags of this rank alone, which are all there.

        A module cannot be loaded while a graph is captured (CUDA error 900), and the first fused
        turn is captured where eager calls go in sequence.
        """
        own, device = self._ranks[self._rank], self._state.device
        a, w = own.rows[0], torch.empty(what.n, what.k, dtype=what.dtype, device=device)
        columns = torch.empty(1, what.n, dtype=torch.float32, device=device)
        by = (own.scales[0], columns) if own.scales else None
        state, flags = torch.zeros_like(self._state), torch.ones_like(own.flags)
        self._begin(state, flags, buffer=1)  # the one before was 0: it waits for nobody
        gathered_matmul.launch(
            *(a, w, new_output(a, w), by, flags, state, self._cut, self._tile),
            rank=self._rank,
            units=self._units,
        )

    def own_rows(self) -> torch.Tensor:
        return self._ranks[self._rank].rows[self._next][self._own]

    def own_scales(self) -> torch.Tensor:
        return self._ranks[self._rank].scales[self._next][self._own]

    def multiplied(self, weights: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
        own, buffer = self._ranks[self._rank], self._next
        self._next = (buffer + 1) % self._buffers
        captured = is_captured(own.flags)
        self._captured |= captured
        if not (captured or self._eager):
            if self._captured:
                arrival_flags.forget_buffer(self._buffer_before)
            return self._gathered[buffer].multiplied(weights, scales)
        by = None if scales is None else (own.scales[buffer], scales)
        c = new_output(own.rows[buffer], weights)  # first: it may wait for memory
        self._begin(self._state, own.flags, buffer=buffer)
        self._pushes.start(buffer)
        gathered_matmul.launch(
            *(own.rows[buffer], weights, c, by, own.flags, self._state, self._cut, self._tile),
            rank=self._rank,
            units=self._units,
        )
        self._pushes.join()
        return c

    def _begin(self, state: torch.Tensor, flags: torch.Tensor, *, buffer: int) -> None:
        finished = self._ranks[self._rank].finished
        arrival_flags.begin(
            *(state, flags, finished, self._finished_of_peers),
            buffer=buffer,
            rank=self._rank,
            chunks=self._cut.count,
        )


def check_sizes(
    shard_rows: int, k: int, n: int, dtype: torch.dtype, *, world: int, scaled: bool, buffers: int
) -> None:
    """Raises ValueError, naming the argument, for what no rank could multiply."""
    name = dtype_names(dtype)
    for argument, value in (("shard_rows", shard_rows), ("k", k), ("n", n)):
        if value < 1:
            raise ValueError(f"{argument}: wanted at least 1, got {value}")
    check_counts("gathered A", (world * shard_rows, k))
    check_counts("weights", (n, k))
    if dtype not in (*_WIDE, _FP8):
        raise ValueError(f"dtype: wanted bfloat16, float16 or float8_e4m3fn, got {name}")
    if scaled != (dtype == _FP8):
        raise ValueError(
            f"scaled: wanted {not scaled} with {name}, got {scaled}: float8_e4m3fn has "
            "scales, other types have none"
        )
    multiple = TMA_ALIGNMENT // dtype.itemsize
    if k % multiple:
        raise ValueError(
            f"k: wanted a multiple of {multiple} with {name} (the hardware reads rows in "
            f"16-byte units), got {k}; fill up A and the weights with zeros"
        )
    if buffers < 2:
        raise ValueError(f"buffers: wanted at least 2, which take turns, got {buffers}")


def check_weights(
    what: Gathered,
    weights: torch.Tensor,
    scales: torch.Tensor | None,
    *,
    scaled: bool,
    device: torch.device,
) -> None:
    """Raises ValueError unless weights [n, k] and scales [1, n] fit what was announced."""
    wanted = dtype_names(what.dtype)
    if tuple(weights.shape) != (what.n, what.k):
        raise ValueError(f"weights: wanted [{what.n}, {what.k}], got {list(weights.shape)}")
    if weights.dtype != what.dtype or weights.device != device:
        raise ValueError(
            f"weights: wanted {wanted} on {device}, got {dtype_names(weights.dtype)} on "
            f"{weights.device}"
        )
    if not weights.is_contiguous() or weights.data_ptr() % TMA_ALIGNMENT:
        raise ValueError(
            "weights: wanted rows without gaps from a multiple of 16 bytes on, got strides "
            f"{weights.stride()} at {weights.data_ptr() % TMA_ALIGNMENT} beyond; clone them"
        )
    if not scaled:
        if scales is not None:
            raise ValueError(f"weight_scales: wanted None with {wanted}, got a tensor")
        return
    if scales is None:
        raise ValueError(f"weight_scales: wanted [1, {what.n}] float32, got None")
    if scales.shape != (1, what.n) or not scales.is_contiguous():
        raise ValueError(
            f"weight_scales: wanted [1, {what.n}] without gaps, got {list(scales.shape)}, strides "
            f"{scales.stride()}"
        )
    if scales.dtype != torch.float32 or scales.device != device:
        raise ValueError(
            f"weight_scales: wanted float32 on {device}, got {dtype_names(scales.dtype)} on "
            f"{scales.device}"
        )


def is_captured(x: torch.Tensor) -> bool:
    """Whether the current stream of x's GPU is being captured in a graph."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _device() -> torch.device:
    """Where operands lie: this rank's GPU; the CPU where there is none, for tests."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def _own_rows(what: Gathered, rank: int) -> slice:
    """The rank's slot among the gathered rows."""
    return slice(rank * what.shard_rows, (rank + 1) * what.shard_rows)


def _plan(what: Gathered, tuning: Tuning) -> Plan | None:
    """The plan for this rank's GPU, within what is tuned; None where no tile fits."""
    x = torch.empty(0, device=_device())
    table: Sequence[GemmConfig] = plans.SMALL
    if has_large_tiles(x):
        narrow = what.dtype.itemsize == 1
        table = plans.NARROW if narrow else plans.WIDE
    return plans.choose(
        what,
        (tuning.tile,) if tuning.tile else table,
        units=compute_units(x, tuning.units),
        chunks=(tuning.chunks,) if tuning.chunks else plans.CHUNKS,
        link=tuning.link,
        product=tuning.product,
    )
