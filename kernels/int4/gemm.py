"""Int4 weights times bf16 or fp16 activations, for up to some hundred tokens.

    out[tokens, rows] = x[tokens, k] @ dequantised(weights)[rows, k].T
    dequantised[row, c] = scale[row, c // group] * (q[row, c] - zero[row, c // group])

x [tokens, k] and out [tokens, rows] are contiguous; weights come from kernels.int4.packing: groups
of 32, 64, 128 or the whole row, symmetric (zero 8) or with zero points, k a multiple of 128, any
number of rows and tokens. Sums are fp32, taken in a fixed order: equal inputs give equal bits.
kernels.int4.specialised, which many tokens take, scales weights of groups before it multiplies, and
rounds them to the type of x. The other kernels scale fp32 sums, as it does too with a scale per
row. So the same token can get other bits in a larger batch, because another kernel runs.

Which kernel runs: on sm_90 what kernels.int4.rule chooses (Gluon with inline PTX); on every other
architecture, in the interpreter, and where none fits, kernels.int4.plain. Only the former was
tuned: kernels.int4.direct and kernels.int4.staged on an H200, separately for plain and chained
launches, kernels.int4.specialised, for many tokens, on an H100.

A chained kernel lets the next one start once it has waited for the one before. Let in earlier, the
one after next would start too, and take the places that become free while blocks end: its own
blocks would gather on few multiprocessors, while others idle. On an H200 that took 7 % longer in
the mean of 90 products of 1 to 16 tokens, and up to half as long again; letting the next one in
behind the last sums took 17 % longer (docs/kernels/int4_chained_order.csv).
"""

from collections.abc import Hashable
from typing import Final

import torch
from triton import knobs

from kernels.common.architecture import compute_units, is_hopper, units_limit
from kernels.common.counters import zeroed_counters
from kernels.common.operators import define, traced_as, untraced
from kernels.common.replay import replayed
from kernels.int4 import direct, plain, rule, specialised, staged
from kernels.int4.packing import (
    SCALE_DTYPES,
    Int4Weights,
    check_sizes,
    dequantise,
    unpack,
)
from kernels.int4.rule import (
    UNIT_COLUMNS,
    UNIT_ROWS,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4StagedConfig,
)


def _in_graphs(
    x: torch.Tensor,
    weights: Int4Weights,
    *,
    out: torch.Tensor | None = None,
    chained: bool = False,
    config: Int4Config | None = None,
) -> torch.Tensor:
    """int4_gemm under torch.compile: a node of the graph, unless the caller says how it runs."""
    if config is not None:
        return _outside(x, weights, out=out, chained=chained, config=config)
    tensors = (x, weights.packed, weights.scales, weights.zeros)
    arguments = (*tensors, weights.rows, weights.k, weights.group, chained)
    if out is None:
        product: torch.Tensor = _NODE(*arguments)
        return product
    _WRITING_NODE(*arguments, out)
    return out


@traced_as(_in_graphs)
def int4_gemm(
    x: torch.Tensor,
    weights: Int4Weights,
    *,
    out: torch.Tensor | None = None,
    chained: bool = False,
    config: Int4Config | None = None,
) -> torch.Tensor:
    """The product [tokens, rows], in the dtype of x.

    out      where to write it; allocated by default
    chained  programmatic dependent launch (sm_90): starts, and reads weights, scales and zero
             points, while kernels before it still run. No kernel since the last launch that was not
             chained, that one included, may write them
    config   instead of the rule's choice

    It may run on several streams and in several CUDA graphs at once. Raises ValueError, before
    anything runs, for tensors of another type, shape, place or alignment and for a config that does
    not fit. Elements of x that are infinite, or above 1e36, can give NaN where the exact product is
    infinite: kernels for few tokens multiply q + 128 and subtract afterwards what that adds.
    """
    config, counts = _choice(x, weights, chained, config)
    counters = zeroed_counters(max(1, counts), x.device)
    if out is None:
        tensors = (weights.packed, weights.scales, weights.zeros, counters)
        sizes = (weights.rows, weights.k, weights.group)
        return _new_product(x, *tensors, *sizes, config, chained)
    check_weights(weights)
    check_activations(x, weights)
    check_out(out, x, weights)
    _launch(config, x, weights, out, counters, chained)
    return out


@replayed
def _new_product(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    counters: torch.Tensor,
    rows: int,
    k: int,
    group: int,
    config: Int4Config,
    chained: bool,
) -> torch.Tensor:
    """The product in new memory: checked and launched as int4_gemm says, recorded at first.

    Tensors stand here one by one, so that a replay finds the addresses of this call's.
    """
    weights = Int4Weights(packed=packed, scales=scales, zeros=zeros, rows=rows, k=k, group=group)
    check_weights(weights)
    check_activations(x, weights)
    out = x.new_empty(x.shape[0], rows)
    _launch(config, x, weights, out, counters, chained)
    return out


def _launch(
    config: Int4Config,
    x: torch.Tensor,
    weights: Int4Weights,
    out: torch.Tensor,
    counters: torch.Tensor,
    chained: bool,
) -> None:
    sums, _ = config.exchange_sizes(weights, x.shape[0])
    # Kernels that join no sums get an address all the same.
    partials = x.new_empty(sums, dtype=torch.float32) if sums else counters.view(torch.float32)
    if isinstance(config, Int4PlainConfig):
        plain.launch(config, x, weights, out, partials, counters)
    elif isinstance(config, Int4DirectConfig):
        direct.launch(config, x, weights, out, partials, counters, chained)
    elif isinstance(config, Int4StagedConfig):
        staged.launch(config, x, weights, out, partials, counters, chained)
    else:
        specialised.launch(config, x, weights, out, partials, counters, chained)


def _node_by_kernels(
    x: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    rows: int,
    k: int,
    group: int,
    chained: bool,
    out: torch.Tensor | None = None,
) -> torch.Tensor | None:
    weights = Int4Weights(packed=packed, scales=scales, zeros=zeros, rows=rows, k=k, group=group)
    product = int4_gemm(x, weights, out=out, chained=chained)
    return product if out is None else None


_outside = untraced("int4_gemm: a graph takes no config of the caller's")(int4_gemm)
_ARGUMENTS: Final = (
    "Tensor x, Tensor packed, Tensor scales, Tensor? zeros, SymInt rows, SymInt k, SymInt group, "
    "bool chained"
)
_NODE: Final = define(
    f"int4_gemm({_ARGUMENTS}) -> Tensor",
    _node_by_kernels,
    lambda x, _packed, _scales, _zeros, rows, *_: x.new_empty((x.shape[0], rows)),
)
_WRITING_NODE: Final = define(
    f"int4_gemm_out({_ARGUMENTS}, Tensor(a!) out) -> ()", _node_by_kernels, lambda *_: None
)


def int4_gemm_reference(x: torch.Tensor, weights: Int4Weights) -> torch.Tensor:
    """The product in float64, on any device."""
    return x.double() @ dequantise(unpack(weights)).t()


def default_config(x: torch.Tensor, weights: Int4Weights, *, chained: bool = False) -> Int4Config:
    """The configuration that int4_gemm takes for these arguments on x's device."""
    if not is_hopper(x):
        return rule.plain(x.shape[0])
    return rule.choose(weights, x.shape[0], chained=chained, units=compute_units(x))


def _choice(
    x: torch.Tensor, weights: Int4Weights, chained: bool, given: Int4Config | None
) -> tuple[Int4Config, int]:
    """(the configuration, counters that it needs); x is checked where it is new.

    given: the caller's configuration, if there is one.
    """
    sizes = (weights.rows, weights.k, weights.group, weights.zeros is not None)
    key = (*sizes, x.shape, x.device, chained, given, units_limit())
    choice = _CHOICES.get(key)
    if choice is None:
        check_weights(weights)
        check_activations(x, weights)
        config = given or default_config(x, weights, chained=chained)
        check_config(config, x, weights, chained)
        choice = (config, config.exchange_sizes(weights, x.shape[0])[1])
        if len(_CHOICES) >= _MOST_CHOICES:
            _CHOICES.clear()
        _CHOICES[key] = choice
    return choice


# A choice takes a host 0.1 ms (two cores of a cloud machine).
_CHOICES: Final[dict[Hashable, tuple[Int4Config, int]]] = {}
_MOST_CHOICES: Final = 4096
_MOST_BLOCKS: Final = 65535  # along the second or third side of a grid (CUDA's limit)


def check_weights(weights: Int4Weights) -> None:
    """Raises ValueError unless the tensors are laid out as kernels.int4.packing.pack does."""
    check_sizes(weights.rows, weights.k, weights.group)
    tiles, units = weights.padded_rows // UNIT_ROWS, weights.k // UNIT_COLUMNS
    _check("weights.packed", weights.packed, (tiles, units, 1024), (torch.uint8,))
    shape = (tiles, weights.k // weights.group, UNIT_ROWS)
    _check("weights.scales", weights.scales, shape, SCALE_DTYPES)
    if weights.zeros is not None:
        _check("weights.zeros", weights.zeros, shape, (weights.scales.dtype,))
    for name in ("scales", "zeros"):
        values = getattr(weights, name)
        if values is not None and values.device != weights.packed.device:
            raise ValueError(
                f"weights.{name}: got device {values.device}, wanted {weights.packed.device}"
            )


def check_activations(x: torch.Tensor, weights: Int4Weights) -> None:
    """Raises ValueError unless x [tokens, k] suits the weights and lies where kernels run."""
    if x.ndim != 2 or x.shape[0] < 1:
        raise ValueError(f"x: got shape {tuple(x.shape)}, wanted [tokens >= 1, k = {weights.k}]")
    _check("x", x, (x.shape[0], weights.k), (weights.scales.dtype,))
    if x.device != weights.packed.device:
        raise ValueError(
            f"x: got device {x.device}, wanted that of weights {weights.packed.device}"
        )
    if not x.is_cuda and not knobs.runtime.interpret:
        raise ValueError(
            f"x: got device {x.device}, wanted a GPU; int4_gemm_reference runs anywhere, the "
            "kernel too where TRITON_INTERPRET=1 was set before Triton was imported"
        )
    if x.shape[0] * max(weights.k, weights.padded_rows) >= 2**31:
        raise ValueError(f"x: got {x.shape[0]} tokens, wanted fewer than 2**31 elements in and out")


def check_out(out: torch.Tensor, x: torch.Tensor, weights: Int4Weights) -> None:
    """Raises ValueError unless the product can be written to `out`."""
    _check("out", out, (x.shape[0], weights.rows), (x.dtype,), alignment=2)
    if out.device != x.device:
        raise ValueError(f"out: got device {out.device}, wanted that of x {x.device}")


def check_config(config: Int4Config, x: torch.Tensor, weights: Int4Weights, chained: bool) -> None:
    """Raises ValueError unless the configuration fits the weights, the device and the launch."""
    if (misfit := config.misfit(weights)) is not None:
        raise ValueError(f"config: {misfit}")
    if isinstance(config, Int4PlainConfig):
        if chained:
            raise ValueError("chained: got True, wanted False: this product runs in plain Triton")
    elif not is_hopper(x):
        raise ValueError(f"config: got {config}, wanted an Int4PlainConfig outside of sm_90")
    grid = config.grid(weights, x.shape[0])
    if max(grid[1:]) > _MOST_BLOCKS:
        raise ValueError(
            f"x: got {x.shape[0]} tokens for {weights.rows} rows of weights, whose grid {grid} is "
            f"beyond the {_MOST_BLOCKS} blocks that a GPU takes along a side: split the product"
        )


def _check(
    name: str,
    tensor: torch.Tensor,
    shape: tuple[int, ...],
    dtypes: tuple[torch.dtype, ...],
    alignment: int = 16,
) -> None:
    if tensor.dtype not in dtypes:
        allowed = " or ".join(str(dtype) for dtype in dtypes)
        raise ValueError(f"{name}: got {tensor.dtype}, wanted {allowed}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: got shape {tuple(tensor.shape)}, wanted {shape}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name}: got strides {tensor.stride()}, wanted a contiguous tensor")
    if tensor.data_ptr() % alignment:
        raise ValueError(f"{name}: got an address that is no multiple of {alignment} bytes")
