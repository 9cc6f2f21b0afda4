"""What every `roofcal/ops/<op>/bench.py` provides, and how it is found."""

import math
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast, get_args

import torch
from torch import distributed

from roofcal.core.records import Distribution
from roofcal.ops import BY_NAME
from roofcal.ops.spec import Unsupported

P = ParamSpec("P")
T = TypeVar("T")
Inputs = Mapping[str, torch.Tensor]
Call = Callable[[Inputs], Any]
_MOST_SHAPES: Final = 100_000  # that dynamo compiles one function for
_PTXAS_PATH: Final = "TRITON_PTXAS_PATH"
_PTXAS_NAMED: Final = os.environ.get(_PTXAS_PATH)  # by a person, before Inductor sets it


class Bench(Protocol):
    """The torch side of an op: the same inputs for every provider, a reference, the providers."""

    def make_inputs(
        self, recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
    ) -> dict[str, torch.Tensor]:
        """Inputs on the generator's device; equal seeds give contenders equal data."""

    def build(self, provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
        """The function to time; raises ops.spec.Unsupported where the provider refuses.

        On one device it is kept for all visits of its point, so it holds no tensors.
        """

    def relative_error(self, recipe: str, inputs: Inputs, output: Any) -> float:
        """||output - reference|| / ||reference||, the reference in float32 or float64."""

    def tolerance(self, recipe: str) -> float:
        """Largest relative error that counts as correct."""


def compiled_for_one_shape(function: Callable[P, T]) -> Callable[P, T]:
    """The function under torch.compile, for the first shape that it is called with.

    Dynamo keeps what it compiled by code object, looks through all of it at each call, and after
    eight shapes runs the function eagerly. So each function from here has a code object of its own,
    and where its graph breaks, at code that others share, the limit is out of reach. A later visit
    of a point finds its function compiled.

    A backward pass is compiled with its forward pass: else it would be when it first runs, which is
    in the timing process, whose device idles meanwhile (16 s of the 25 s of a first call on a CPU).
    A setting that only compilers ahead had would give their graphs other keys in torch's cache.
    """
    from torch._dynamo import config  # noqa: PLC0415 (seconds, which only compiled points need)
    from torch._functorch import config as functorch  # noqa: PLC0415

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        return function(*arguments, **options)

    call.__code__ = call.__code__.replace()
    config.recompile_limit = config.accumulated_recompile_limit = _MOST_SHAPES
    functorch.force_non_lazy_backward_lowering = True
    if torch.version.cuda and torch.cuda.is_available():
        assemble_with_two_ptxas()
    return torch.compile(call, dynamic=False)


def assemble_with_two_ptxas() -> None:
    """Have torch's ptxas assemble torch.compile's kernels in this process, Triton's all others.

    A ptxas that the environment names (TRITON_PTXAS_PATH) assembles all. Triton's cache knows a
    kernel by the version of ptxas too. Inductor points Triton to the ptxas that torch has before
    the first kernel that it compiles in a process, and from then on each kernel of others has
    another key as well: the timing process compiled 176 int4 kernels again that lay in the cache,
    81 of the 247 s of probe_mixed_gemm on an H200 (`compiling_s` of card GPU-437035f4).

    Kernels are compiled one after the other from here on: what lies in the cache needs no
    processes, and those that Inductor starts for itself would take cores from what is timed. One
    thread at a time may compile, because the environment is the process's.
    """
    # Seconds, which only compiled points need.
    from torch._inductor import async_compile, config  # noqa: PLC0415
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner  # noqa: PLC0415
    from triton.backends.nvidia.compiler import get_ptxas_version  # noqa: PLC0415

    precompile = CachingAutotuner.precompile
    if hasattr(precompile, "uses_ptxas_of_torch"):
        return

    def precompile_with_ptxas_of_torch(self: Any, *arguments: Any, **options: Any) -> Any:
        with _ptxas_of_torch():
            return precompile(self, *arguments, **options)

    precompile_with_ptxas_of_torch.uses_ptxas_of_torch = True  # type: ignore[attr-defined]
    # `setattr`, because mypy takes methods and functions of modules for constants.
    setattr(CachingAutotuner, "precompile", precompile_with_ptxas_of_torch)  # noqa: B010
    setattr(async_compile, "_set_triton_ptxas_path", lambda: None)  # noqa: B010
    config.compile_threads = 1
    # Of an Inductor that compiled before this was called.
    if os.environ.get(_PTXAS_PATH) != _PTXAS_NAMED:
        os.environ.pop(_PTXAS_PATH)
        get_ptxas_version.cache_clear()


@contextmanager
def _ptxas_of_torch() -> Iterator[None]:
    """Within a with block, Triton assembles with the ptxas that torch has."""
    from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path  # noqa: PLC0415
    from triton.backends.nvidia.compiler import get_ptxas_version  # noqa: PLC0415

    before = os.environ.get(_PTXAS_PATH)
    _set_triton_ptxas_path.__wrapped__()  # without the cache that would let it run once
    get_ptxas_version.cache_clear()
    try:
        yield
    finally:
        os.environ.pop(_PTXAS_PATH, None)
        if before is not None:
            os.environ[_PTXAS_PATH] = before
        get_ptxas_version.cache_clear()


def arranged_inputs(bench: Bench, provider: str, recipe: str, inputs: Inputs) -> Inputs:
    """The inputs in the layout that a provider reads, arranged before anything is timed.

    Weights of a layer are packed once and multiplied many times. A bench whose providers all read
    the inputs as they are made has no function `arrange`.
    """
    arrange = getattr(bench, "arrange", None)
    return inputs if arrange is None else cast(Inputs, arrange(provider, recipe, inputs))


def largest_error(bench: Bench, provider: str, recipe: str) -> float:
    """The relative error up to which a provider's output counts as correct.

    Libraries that round more often than the recipe asks for have a larger bound in the bench's
    PROVIDER_TOLERANCE: they are timed, and their error is recorded.
    """
    own: Mapping[str, float] = getattr(bench, "PROVIDER_TOLERANCE", {})
    return max(bench.tolerance(recipe), own.get(provider, 0.0))


def quantisation_error(
    op: str, bench: Bench, recipe: str, inputs: Inputs, draw_operands: Callable[[], Inputs]
) -> float | None:
    """What the recipe's formats cost on these inputs, whatever kernel multiplies them.

    None for a bench without a function `quantisation_error`, and for probes, which are measured for
    their time only. draw_operands: makes the operands before they were quantised; only a bench that
    needs them calls it.
    """
    measure = getattr(bench, "quantisation_error", None)
    if measure is None or BY_NAME[op].role == "probe":
        return None
    return cast(float | None, measure(recipe, inputs, draw_operands))


class ExactOutputs:
    """The exact outputs of the last shape and data, for all contenders that are checked on them.

    A float64 reference of a linear takes longer than the rest of its check: forward and backward of
    4096 x 57344 x 8192 are 11.5 TFLOP, and its recipes and providers differ in their outputs alone.
    """

    def __init__(self) -> None:
        self._key: Hashable = None
        self._outputs: dict[str, torch.Tensor] = {}

    def of(
        self, key: Hashable, compute: Callable[[], dict[str, torch.Tensor]]
    ) -> dict[str, torch.Tensor]:
        """The outputs of that shape and data by name: those that are kept, or else computed."""
        if key != self._key or not self._outputs:
            self.forget()
            self._outputs, self._key = compute(), key
        return self._outputs

    def forget(self) -> None:
        """Give their memory back."""
        self._key, self._outputs = None, {}


def relative_errors(
    bench: Bench,
    recipe: str,
    inputs: Inputs,
    output: Any,
    exact: ExactOutputs | None = None,
    key: Hashable = None,
) -> tuple[float, dict[str, float] | None]:
    """(relative error, relative error of each output by name).

    A bench whose exact outputs are those of its inputs, whatever the recipe, has a function
    `exact_outputs`: inputs -> the tensor by name of output, in the order of the call's outputs. For
    any other bench the second is None; for such a one the first is the worst of the outputs.

    Args:
        bench: of the op.
        recipe: of the point.
        inputs: as the bench makes them.
        output: of the provider.
        exact: keeps exact outputs for other contenders.
        key: tells shapes and data apart, for `exact`.
    """
    compute = getattr(bench, "exact_outputs", None)
    if compute is None:
        return bench.relative_error(recipe, inputs, output), None
    references = (exact or ExactOutputs()).of(key, partial(compute, inputs))
    pairs = zip(references.items(), output, strict=True)
    by_output = {name: norm_error(value, reference) for (name, reference), value in pairs}
    return worst(*by_output.values()), by_output


def load_bench(op: str) -> Bench:
    """The bench module in the folder of an op; raises KeyError for an unknown op."""
    return cast(Bench, import_module(f"roofcal.ops.{BY_NAME[op].folder}.bench"))


OUTLIER_ONE_IN: Final = 512  # columns
OUTLIER_FACTOR: Final = 64.0
DEGREES_OF_FREEDOM: Final = 3


def draw(
    generator: torch.Generator, distribution: str, *sizes: int, dtype: torch.dtype = torch.bfloat16
) -> torch.Tensor:
    """A matrix of the given distribution, z standard normal; raises ValueError for an unknown one.

    normal            z
    outlier_channels  64 z in one column of 512 (at least one; drawn), z in all others
    heavy_tails       z / sqrt(c / 3), c the sum of 3 squares: Student's t, 3 degrees of freedom
    all_positive      |z|: partial sums of products only grow
    zeros             0

    Equal generators give equal data on one kind of device. Zeros draw less power and run up to 13 %
    faster on an H200, so the distribution is recorded.
    """

    def normal(as_type: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(*sizes, dtype=as_type, device=generator.device, generator=generator)

    if distribution == "zeros":
        return torch.zeros(*sizes, dtype=dtype, device=generator.device)
    if distribution == "normal":
        return normal()
    if distribution == "all_positive":
        return normal().abs_()
    if distribution == "outlier_channels":
        z, columns = normal(), sizes[-1]
        order = torch.randperm(columns, device=generator.device, generator=generator)
        z[..., order[: -(-columns // OUTLIER_ONE_IN)]] *= OUTLIER_FACTOR
        return z
    if distribution == "heavy_tails":
        z, c = normal(torch.float32), torch.zeros((), device=generator.device)
        for _ in range(DEGREES_OF_FREEDOM):
            c = c + normal(torch.float32).square_()
        return z.div_(c.div_(DEGREES_OF_FREEDOM).sqrt_()).to(dtype)
    allowed = ", ".join(get_args(Distribution))
    raise ValueError(f"unknown distribution '{distribution}'; allowed: {allowed}")


def worst(*errors: float) -> float:
    """The largest error; NaN if any is NaN, which max() would pass over."""
    return math.nan if any(math.isnan(error) for error in errors) else max(errors)


# torch 2.13 has renamed it, and warns of the old name.
all_gather = getattr(distributed, "all_gather_single", distributed.all_gather_into_tensor)


def gathered(x: torch.Tensor) -> torch.Tensor:
    """The rows of every rank's `x`, in the order of ranks; all ranks call it, in one order.

    As bytes: gloo and older NCCL know no fp8.
    """
    own = x.contiguous().view(torch.uint8)
    rows = own.new_empty(distributed.get_world_size() * own.shape[0], *own.shape[1:])
    all_gather(rows, own)
    return rows.view(x.dtype)


def require_e4m3(where: str) -> None:
    """Raises Unsupported, for the provider that `where` names, without a GPU that has e4m3."""
    if not torch.cuda.is_available():
        raise Unsupported(f"{where} needs a GPU; this machine has none")
    major, minor = torch.cuda.get_device_capability()
    if torch.version.hip is None and (major, minor) < (8, 9):
        raise Unsupported(
            f"{where} needs a GPU with e4m3 (compute capability 8.9 or later); this one has "
            f"{major}.{minor}"
        )


def require_peer_access(provider: str) -> None:
    """Raises Unsupported where a GPU of this group cannot address the memory of another one."""
    if not torch.cuda.is_available():
        raise Unsupported(f"provider '{provider}' needs GPUs that address each other's memory")
    own = torch.cuda.current_device()
    for other in range(distributed.get_world_size()):
        if other != own and not torch.cuda.can_device_access_peer(own, other):
            raise Unsupported(
                f"provider '{provider}' needs GPUs that address each other's memory; GPU {own} "
                f"cannot address that of GPU {other}"
            )


def norm_error(output: torch.Tensor, reference: torch.Tensor) -> float:
    """||output - reference|| / ||reference|| in float64; the absolute norm where that is zero."""
    difference = (output.double() - reference.double()).norm()
    scale = reference.double().norm()
    return float(difference / scale) if float(scale) > 0 else float(difference)
