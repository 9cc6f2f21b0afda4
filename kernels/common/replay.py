"""Record the kernel launches of a function at its first call, and replay them at later calls.

What a cast or a product decides (checks, tiles, grids, descriptors, which compiled kernel) depends
on the shapes, strides, types, alignment and device of its inputs and on the limit of
multiprocessors (kernels.common.architecture) alone. Deciding it in Python costs 20 to 170 us of the
host. So the first call for such inputs is recorded: the memory that it allocates, and the compiled
kernels with their arguments. Later calls allocate and launch: 7 to 30 us, without the driver's part
(kernels on a CPU that is said to have a GPU, of 2026-11-22).

    replayed(rowwise_dim0)(x, dtype)

A function is recorded if all it does is allocate, view and launch. Whatever else it does, another
operator of torch for example or a product that counts in memory of its stream (unless that memory
is an argument), it is called as it is: always on CPUs, on AMD GPUs, and inside a function that is
recorded. torch.compile sees an operator in place of it (kernels.common.operators).
"""

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, cast
from unittest import mock

import torch
import triton
from torch.utils._python_dispatch import TorchDispatchMode
from triton import knobs
from triton.runtime.jit import JITFunction

from kernels.common.architecture import is_amd_build, units_limit

P = ParamSpec("P")
R = TypeVar("R", bound=torch.Tensor | Sequence[torch.Tensor])
_MOST_RECORDINGS: Final = 4096  # of shapes that never come again; a recording is a few kB
_ALLOCATIONS: Final = frozenset(("empty", "empty_strided", "new_empty", "new_empty_strided"))
_ALLOCATIONS_OF_ZEROS: Final = frozenset(("zeros", "new_zeros"))
_VIEWS: Final = frozenset(
    ("detach", "alias", "t", "transpose", "permute", "slice", "select", "view", "_unsafe_view")
    + ("as_strided", "expand", "unsqueeze", "squeeze")
)


class _Layout(NamedTuple):
    """A tensor in the memory of that number; offset in elements."""

    memory: int
    offset: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(slots=True)
class _Descriptor:
    """A tensor descriptor as the launcher reads it: its base is whatever has an address."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str

    @property
    def base(self) -> "_Descriptor":
        """What has the address."""
        return self

    def data_ptr(self) -> int:
        """The address."""
        return self.address


@dataclass(slots=True)
class _Launch:
    """A compiled kernel, its grid and its arguments.

    pointers   (argument, tensor, offset in bytes): which arguments are addresses, and in which
               tensor, counted over the inputs and then over the memory that is allocated
    """

    compiled: Any
    grid: tuple[int, int, int]
    arguments: list[Any]
    pointers: list[tuple[int, int, int]] = field(default_factory=list)

    def __call__(self, stream: int, tensors: Sequence[Any]) -> None:
        """Launch with pointers into these tensors."""
        arguments = self.arguments.copy()
        for index, tensor, offset in self.pointers:
            address = tensors[tensor].data_ptr() + offset
            d = arguments[index]
            arguments[index] = (
                address if d is None else _Descriptor(address, d.shape, d.strides, d.padding)
            )
        compiled = self.compiled
        hooks = (None, None, None)  # and no metadata for them
        state = (compiled.function, compiled.packed_metadata)
        compiled.run(*self.grid, stream, *state, *hooks, *arguments)


@dataclass(slots=True)
class Recording:
    """What a function allocates, launches and returns."""

    device: torch.device
    memory: list[_Layout]
    zeroed: list[int]
    launches: list[_Launch]
    outputs: list[_Layout]
    container: type  # of the outputs; a tensor alone has none

    def __call__(self, inputs: Sequence[Any]) -> Any:
        """Do it all again for other inputs of the same kind."""
        device = self.device
        memory = [
            torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device=device)
            for layout in self.memory
        ]
        for index in self.zeroed:
            memory[index].zero_()
        stream = triton.runtime.driver.active.get_current_stream(device.index)
        tensors = (*inputs, *memory)
        for launch in self.launches:
            launch(stream, tensors)
        outputs = []
        for layout in self.outputs:
            x = memory[layout.memory]
            if layout != self.memory[layout.memory]:
                x = x.view(layout.dtype).as_strided(layout.size, layout.stride, layout.offset)
            outputs.append(x)
        return outputs[0] if self.container is torch.Tensor else self.container(outputs)


class _Recorder(TorchDispatchMode):
    """Notes what is allocated and launched while it is active, in its own thread."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        """For a function of these inputs, tensors or not."""
        super().__init__()
        self.inputs = inputs
        self.allocated: dict[int, torch.Tensor] = {}  # by address; kept, so that none is reused
        self.zeroed: set[int] = set()
        self.launches: list[_Launch] = []
        self.is_complete = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator; keep what it allocated, or note that it cannot be repeated."""
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if isinstance(result, torch.Tensor):
            address = _address(result)
            if name in _ALLOCATIONS or name in _ALLOCATIONS_OF_ZEROS:
                self.allocated[address] = result
                self.zeroed |= {address} if name in _ALLOCATIONS_OF_ZEROS else set()
                self.is_complete &= address != 0  # as of tensors without elements
            elif name == "zero_":
                self._note_zeroed(result)
            else:
                # Memory that was there before, counters of a stream for example, cannot be
                # allocated anew.
                is_from_here = address in self.allocated or bool(self._inputs_at(address))
                self.is_complete &= name in _VIEWS and is_from_here
        else:
            self.is_complete = False
        return result

    def _note_zeroed(self, x: torch.Tensor) -> None:
        """`zero_` was called: replays zero whole new memory, and do so before the first launch."""
        address = _address(x)
        is_whole = x.numel() * x.element_size() == x.untyped_storage().nbytes()
        self.is_complete &= address in self.allocated and is_whole and not self.launches
        self.zeroed.add(address)

    def note_launch(self, kernel: Any, compiled: Any, grid: Any, args: Any, kwargs: Any) -> None:
        """A kernel was launched; kwargs may hold options of the compiler beside arguments."""
        named = kernel.arg_names[len(args) :]
        arguments = [*args, *(kwargs[name] for name in named if name in kwargs)]
        if compiled is None or len(arguments) != len(kernel.arg_names):
            self.is_complete = False
        self.launches.append(_Launch(compiled, (*grid, 1, 1)[:3], arguments))

    def _inputs_at(self, address: int) -> list[int]:
        inputs = enumerate(self.inputs)
        return [i for i, x in inputs if isinstance(x, torch.Tensor) and _address(x) == address]

    def recording(self, result: torch.Tensor | Sequence[torch.Tensor]) -> Recording | None:
        """What was recorded; None if it cannot be repeated."""
        outputs = [result] if isinstance(result, torch.Tensor) else result
        device = next(x.device for x in self.inputs if isinstance(x, torch.Tensor))
        numbers = {address: i for i, address in enumerate(self.allocated)}
        allocated = list(self.allocated.values())
        are_new = all(_address(x) in numbers for x in outputs)
        if not self.is_complete or not are_new or any(x.device != device for x in allocated):
            return None
        if not all(self._replace_pointers(launch, numbers) for launch in self.launches):
            return None
        returned = [_layout(numbers[_address(x)], x) for x in outputs]
        memory = []
        for i, x in enumerate(allocated):
            size_bytes = x.untyped_storage().nbytes()
            whole = [y for y in returned if y.memory == i and _covers(y, size_bytes)]
            memory.append(whole[0] if whole else _Layout(i, 0, torch.uint8, (size_bytes,), (1,)))
        zeroed = [numbers[address] for address in self.zeroed]
        return Recording(device, memory, zeroed, self.launches, returned, type(result))

    def _replace_pointers(self, launch: _Launch, numbers: dict[int, int]) -> bool:
        """Note where pointers lie, in place of tensors; False if one lies in unknown memory."""
        for index, argument in enumerate(launch.arguments):
            is_descriptor = hasattr(argument, "block_shape")
            x = argument.base if is_descriptor else argument
            if not isinstance(x, torch.Tensor):
                continue
            address, inputs = _address(x), self._inputs_at(_address(x))
            if len(inputs) > 1:  # views of one memory, as of a checkpoint that was read at once
                inputs = [i for i in inputs if _holds(self.inputs[i], x.data_ptr())]
            if address in numbers:
                tensor, begin = len(self.inputs) + numbers[address], address
            elif len(inputs) == 1:
                tensor, begin = inputs[0], self.inputs[inputs[0]].data_ptr()
            else:  # unknown, or inputs that overlap
                return False
            launch.pointers.append((index, tensor, x.data_ptr() - begin))
            launch.arguments[index] = None
            if is_descriptor:
                sizes = (tuple(argument.shape), tuple(argument.strides))
                launch.arguments[index] = _Descriptor(0, *sizes, argument.padding)
        return True


def _address(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _holds(x: torch.Tensor, place: int) -> bool:
    """Whether an address is among the bytes from the first to the last element of x."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return 0 <= place - x.data_ptr() < span * x.element_size()


def _layout(memory: int, x: torch.Tensor) -> _Layout:
    return _Layout(memory, int(x.storage_offset()), x.dtype, tuple(x.shape), x.stride())


def _covers(layout: _Layout, size_bytes: int) -> bool:
    """Whether a tensor is all of its memory, so that it is allocated as it is returned."""
    span = 1 + sum((n - 1) * s for n, s in zip(layout.size, layout.stride, strict=True))
    return layout.offset == 0 and span * layout.dtype.itemsize == size_bytes


_recordings: dict[Hashable, Recording | None] = {}
_one_at_a_time = threading.Lock()
_recording_thread: int | None = None
_recorder: _Recorder | None = None


def forbid_replay() -> None:
    """Say that what is recorded now, if anything is, depends on more than its arguments."""
    if _recorder is not None and _recording_thread == threading.get_ident():
        _recorder.is_complete = False


def replayed(function: Callable[P, R]) -> Callable[P, R]:
    """The function, recorded the first time for inputs of a kind, and replayed from then on.

    function   returns new tensors, and depends on nothing but its arguments and the limit of
               multiprocessors: of tensors (the first argument is one, on the current device) on
               their kind, of others, which are hashable, on their values
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        inputs = (*args, *kwargs.values())
        first = args[0] if args else next(filter(torch.is_tensor, inputs), None)
        if not isinstance(first, torch.Tensor) or _is_called_as_it_is(first):
            return function(*args, **kwargs)
        key = (function, tuple(kwargs), units_limit(), *map(_kind, inputs))
        recording = _recordings.get(key)
        if recording is not None:
            return cast(R, recording(inputs))
        if key in _recordings:
            return function(*args, **kwargs)
        return _record(key, lambda: function(*args, **kwargs), inputs)

    return call


def _is_called_as_it_is(x: torch.Tensor) -> bool:
    """Whether nothing is replayed now, for a function of x."""
    if not x.is_cuda or is_amd_build():
        return True
    if type(x) is not torch.Tensor and type(x) is not torch.nn.Parameter:  # a fake, for example
        return True
    runtime = knobs.runtime  # hooks: a profiler of Triton's wants to see launches
    is_watched = bool(runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls)
    return is_watched or _recording_thread == threading.get_ident()


def _kind(x: Any) -> Hashable:
    """What a launch depends on; kernels are compiled for addresses at 16 bytes or for others."""
    if not isinstance(x, torch.Tensor):
        kind: Hashable = x
        return kind
    return x.shape, x.stride(), x.dtype, x.get_device(), x.data_ptr() % 16


def _record(key: Hashable, function: Callable[[], R], inputs: Sequence[Any]) -> R:
    global _recorder, _recording_thread  # noqa: PLW0603 (one recording at a time)
    thread = threading.get_ident()
    original = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        compiled = original(self, *args, grid=grid, warmup=warmup, **kwargs)
        if threading.get_ident() == thread and not warmup:
            recorder.note_launch(self, compiled, grid, args, kwargs)
        return compiled

    with _one_at_a_time, mock.patch.object(JITFunction, "run", run):
        recorder = _recorder = _Recorder(inputs)
        _recording_thread = thread
        try:
            with recorder:
                result = function()
        finally:
            _recorder = _recording_thread = None
        if len(_recordings) >= _MOST_RECORDINGS:
            _recordings.clear()
        _recordings[key] = recorder.recording(result)
    return result
