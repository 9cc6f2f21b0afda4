"""bf16 -> fp8 e4m3 casts: plain torch, eager and compiled, and the Triton kernels of `kernels`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch

from roofcal.core.recipes import CAST_RECIPES
from roofcal.ops.bench import (
    Call,
    Inputs,
    compiled_for_one_shape,
    draw,
    norm_error,
    require_e4m3,
    worst,
)
from roofcal.ops.spec import Unsupported

E4M3_MAX: Final = 448.0
MX_BLOCK: Final = 32
BLOCK: Final = 128
_E4M3_MAX_EXPONENT: Final = 8
_ROWS_AT_ONCE: Final = 2048  # of a reference in float64
Outputs = tuple[torch.Tensor, ...]


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """x [rows, cols] in bf16."""
    return {"x": draw(generator, distribution, shape["rows"], shape["cols"])}


def _quantised(x: torch.Tensor, amax: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = amax.float().clamp(min=1e-12) / E4M3_MAX
    # Clamped: torch 2.11 casts an overflow to NaN, 2.13 saturates.
    values = (x.float() / scale).clamp(-E4M3_MAX, E4M3_MAX)
    return values.to(torch.float8_e4m3fn), scale


def tensorwise(x: torch.Tensor) -> Outputs:
    """(q [rows, cols], scale [])."""
    return _quantised(x, x.abs().amax())


def rowwise_dim0(x: torch.Tensor) -> Outputs:
    """(q [rows, cols], scale [rows, 1])."""
    return _quantised(x, x.abs().amax(dim=1, keepdim=True))


def rowwise_dim1(x: torch.Tensor) -> Outputs:
    """(q [cols, rows] contiguous, scale [cols, 1])."""
    q, scale = _quantised(x, x.abs().amax(dim=0, keepdim=True))
    return q.t().contiguous(), scale.t()


def rowwise_both(x: torch.Tensor) -> Outputs:
    """(q of dim0, scale of dim0, q of dim1, scale of dim1)."""
    return (*rowwise_dim0(x), *rowwise_dim1(x))


def mxfp8_dim0(x: torch.Tensor) -> Outputs:
    """(q [rows, cols], scale [rows, ceil(cols/32)] e8m0)."""
    rows, cols = x.shape
    blocks = _in_blocks(x, MX_BLOCK).float()
    exponent = blocks.abs().amax(dim=2).view(torch.int32) >> 23
    byte = (exponent - _E4M3_MAX_EXPONENT).clamp(min=0)
    factor = ((254 - byte) << 23).view(torch.float32)
    q = (blocks * factor[:, :, None]).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return q.reshape(rows, -1)[:, :cols], byte.to(torch.uint8).view(torch.float8_e8m0fnu)


def mxfp8_dim1(x: torch.Tensor) -> Outputs:
    """(q [cols, rows] contiguous, scale [cols, ceil(rows/32)] e8m0)."""
    return mxfp8_dim0(x.t().contiguous())


def mxfp8_both(x: torch.Tensor) -> Outputs:
    """(q of dim0, scale of dim0, q of dim1, scale of dim1)."""
    return (*mxfp8_dim0(x), *mxfp8_dim1(x))


def in_strips(x: torch.Tensor, size: int) -> Outputs:
    """(q [rows, cols], scale [rows, ceil(cols/size)] transposed in memory)."""
    rows, cols = x.shape
    blocks = _in_blocks(x, size)
    q, scale = _quantised(blocks, blocks.abs().amax(dim=2, keepdim=True))
    return q.reshape(rows, -1)[:, :cols].contiguous(), scale[:, :, 0].t().contiguous().t()


def in_strips_dim1(x: torch.Tensor, size: int) -> Outputs:
    """(q [cols, rows] contiguous, scale [cols, ceil(rows/size)] transposed in memory)."""
    return in_strips(x.t().contiguous(), size)


def blockwise_128x128(x: torch.Tensor) -> Outputs:
    """(q [rows, cols], scale [ceil(rows/128), ceil(cols/128)])."""
    rows, cols = x.shape
    squares = _in_blocks(_filled_rows(x, BLOCK), BLOCK).unflatten(0, (-1, BLOCK))
    q, scale = _quantised(squares, squares.abs().amax(dim=(1, 3), keepdim=True))
    return q.flatten(2).flatten(0, 1)[:rows, :cols].contiguous(), scale[:, 0, :, 0]


def _in_blocks(x: torch.Tensor, size: int) -> torch.Tensor:
    """x [rows, blocks, size], the last block filled with zeros."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[1] % size))
    return padded.reshape(x.shape[0], -1, size)


def _filled_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    """x with rows of zeros up to a multiple of `rows`."""
    return torch.nn.functional.pad(x, (0, 0, 0, -x.shape[0] % rows))


_CASTS: Final[dict[str, Callable[[torch.Tensor], Outputs]]] = {
    "fp8_tensorwise": tensorwise,
    "fp8_rowwise_dim0": rowwise_dim0,
    "fp8_rowwise_dim1": rowwise_dim1,
    "fp8_rowwise_both": rowwise_both,
    "mxfp8_dim0": mxfp8_dim0,
    "mxfp8_dim1": mxfp8_dim1,
    "mxfp8_both": mxfp8_both,
    "fp8_blockwise_1x128": partial(in_strips, size=BLOCK),
    "fp8_blockwise_1x128_dim1": partial(in_strips_dim1, size=BLOCK),
    "fp8_blockwise_128x128": blockwise_128x128,
}


def _triton_cast(recipe: str) -> Callable[[torch.Tensor], Outputs]:
    # Imported here: a CPU study needs no Triton.
    from kernels.cast import blocks, columns, rows, tensorwise  # noqa: PLC0415

    casts: dict[str, Callable[[torch.Tensor], Outputs]] = {
        "fp8_tensorwise": tensorwise.tensorwise,
        "fp8_rowwise_dim0": rows.rowwise_dim0,
        "fp8_rowwise_dim1": columns.rowwise_dim1,
        "fp8_rowwise_both": columns.rowwise_both,
        "mxfp8_dim0": blocks.mxfp8_dim0,
        "mxfp8_dim1": blocks.mxfp8_dim1,
        "mxfp8_both": blocks.mxfp8_both,
        "fp8_blockwise_1x128": blocks.blockwise_1x128,
        "fp8_blockwise_1x128_dim1": blocks.blockwise_1x128_dim1,
        "fp8_blockwise_128x128": blocks.blockwise_128x128,
    }
    if recipe not in casts:
        raise Unsupported(f"provider 'triton' of op cast has no recipe '{recipe}'")
    return casts[recipe]


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The cast: a kernel, eager, or compiled for exactly this shape (in training, shapes repeat).

    Raises ops.spec.Unsupported for an unknown provider, or for `triton` without a GPU that has
    e4m3.
    """
    cast = _CASTS[recipe]
    if provider == "triton":
        require_e4m3("provider 'triton' of op cast")
        cast = _triton_cast(recipe)
    elif provider == "torch_compile":
        cast = compiled_for_one_shape(cast)
    elif provider != "torch_eager":
        raise Unsupported(f"unknown provider '{provider}' for op cast")
    return lambda inputs: cast(inputs["x"])


def relative_error(recipe: str, inputs: Inputs, output: Outputs) -> float:
    """Worst error over the outputs, of the values they stand for (q * scale).

    The reference is x quantised in float64 with exact scales.
    """
    errors = []
    for i, scale in enumerate(CAST_RECIPES[recipe]):
        q, scales = output[2 * i], output[2 * i + 1]
        if scale.is_transposed:
            x, rows, cols = inputs["x"].t(), scale.cols, scale.rows
        else:
            x, rows, cols = inputs["x"], scale.rows, scale.cols
        if scale.dtype == "e8m0":
            errors.append(_mx_error(q, scales, x))
        elif cols is not None:
            errors.append(_blocks_error(q, scales, x, (rows or 1, cols)))
        elif rows is not None:
            errors.append(_scaled_error(q, scales, x, x.abs().amax(dim=1, keepdim=True)))
        else:
            errors.append(_scaled_error(q, scales, x, x.abs().amax()))
    return worst(*errors)


def _mx_error(q: torch.Tensor, scale: torch.Tensor, x: torch.Tensor) -> float:
    errors = []
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        blocks = _in_blocks(x[part], MX_BLOCK).double()
        amax = blocks.abs().amax(dim=2)
        exponent = torch.frexp(amax).exponent - 1 - _E4M3_MAX_EXPONENT
        exact = torch.exp2(torch.where(amax > 0, exponent, -127).clamp(min=-127).double())
        rounded = (blocks / exact[:, :, None]).float().clamp(-E4M3_MAX, E4M3_MAX)
        expected = rounded.to(torch.float8_e4m3fn).double() * exact[:, :, None]
        values = _in_blocks(q[part].double(), MX_BLOCK) * scale[part].double()[:, :, None]
        errors += [norm_error(scale[part].double(), exact), norm_error(values, expected)]
    return worst(*errors)


def _blocks_error(
    q: torch.Tensor, scale: torch.Tensor, x: torch.Tensor, block: tuple[int, int]
) -> float:
    """Of blocks of (rows, columns); the rows divide _ROWS_AT_ONCE."""
    errors = []
    block_rows, block_cols = block
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        blocks = _in_blocks(x[part], block_cols).double()
        row_amax = _filled_rows(blocks.abs().amax(dim=2), block_rows)
        exact = row_amax.unflatten(0, (-1, block_rows)).amax(dim=1).clamp(min=1e-12) / E4M3_MAX
        own = scale[start // block_rows :][: len(exact)].double()
        exact_of_row, own_of_row = (  # [rows, blocks, 1]
            s.repeat_interleave(block_rows, dim=0)[: len(blocks), :, None] for s in (exact, own)
        )
        rounded = (blocks / exact_of_row).float().clamp(-E4M3_MAX, E4M3_MAX)
        expected = rounded.to(torch.float8_e4m3fn).double() * exact_of_row
        values = _in_blocks(q[part].double(), block_cols) * own_of_row
        errors += [norm_error(own, exact), norm_error(values, expected)]
    return worst(*errors)


def _scaled_error(
    q: torch.Tensor, scale: torch.Tensor, x: torch.Tensor, amax: torch.Tensor
) -> float:
    """Of one scale in all, or one per row."""
    exact = amax.double().clamp(min=1e-12) / E4M3_MAX
    errors = [norm_error(scale, exact)]
    for start in range(0, x.shape[0], _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        exact_of_rows = exact[part] if exact.ndim == 2 else exact
        own_of_rows = scale[part] if scale.ndim == 2 else scale
        rounded = (x[part].double() / exact_of_rows).float().clamp(-E4M3_MAX, E4M3_MAX)
        expected = rounded.to(torch.float8_e4m3fn).double() * exact_of_rows
        errors.append(norm_error(q[part].double() * own_of_rows.double(), expected))
    return worst(*errors)


def tolerance(recipe: str) -> float:
    """One value in a few hundred may round the other way (6 %): fp32 against float64 division."""
    return 1e-2
