"""Matrix products: through torch (cuBLASLt on GPUs, oneDNN on CPUs) and, in fp8, our kernels."""

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch.nn import functional

from roofcal.core.recipes import GEMM_RECIPES, Recipe
from roofcal.ops.bench import Call, Inputs, draw, norm_error, require_e4m3, worst
from roofcal.ops.spec import Unsupported

E4M3_MAX: Final = 448.0
BLOCK: Final = 128  # sides of what has one scale in recipe fp8_blockwise_128x128
_FULL_REFERENCE_FLOPS: Final = 2e9
_SAMPLED_ROWS: Final = 64
_CHUNK: Final = 4096
# bf16 rounding of the output alone is 1.7e-3; fast fp8 accumulation keeps about 14 mantissa bits
# (DeepGEMM issue 37), which shows at K of many thousands.
_TOLERANCE: Final = {"fp32": 1e-5, "int8": 1e-9, "bf16": 5e-3}
_FP8_TOLERANCE: Final = {"slow": 5e-3, "fast": 2e-2}


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """a [M,K] and b [N,K] (and their scales for fp8): bf16 draws, quantised as the recipe says."""
    spec = GEMM_RECIPES[recipe]
    a = draw(generator, distribution, shape["m"], shape["k"])
    b = draw(generator, distribution, shape["n"], shape["k"])
    if _blockwise(spec):
        return _in_blocks(a, b)
    if spec.math_dtype == "fp8":
        quantised_a, scale_a = quantise_fp8(a, rowwise=_rowwise(spec))
        quantised_b, scale_b = quantise_fp8(b, rowwise=_rowwise(spec))
        scale_b = scale_b.reshape(1, -1) if _rowwise(spec) else scale_b
        return {"a": quantised_a, "b": quantised_b, "scale_a": scale_a, "scale_b": scale_b}
    if spec.math_dtype == "int8":
        return {"a": _to_int8(a), "b": _to_int8(b)}
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[spec.math_dtype]
    return {"a": a.to(dtype), "b": b.to(dtype)}


def _in_blocks(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """a and b with a scale per 1 x 128 and per 128 x 128, laid out as cuBLASLt wants them.

    block_scale_a [M, K/128] lies transposed (our kernels are fastest so, too), block_scale_b
    [N/128, K/128] in rows padded to multiples of 4.
    """
    steps = -(-a.shape[1] // BLOCK)
    scale_a = torch.empty(steps, a.shape[0], dtype=torch.float32, device=a.device).t()
    squares = (-(-b.shape[0] // BLOCK), -(-steps // 4) * 4)
    scale_b = torch.zeros(squares, dtype=torch.float32, device=b.device)
    inputs = {"block_scale_a": scale_a, "block_scale_b": scale_b}
    for name, x, block_rows in (("a", a, 1), ("b", b, BLOCK)):
        quantised = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
        for step in range(steps):
            cols = slice(step * BLOCK, (step + 1) * BLOCK)
            amax = x[:, cols].abs().amax(dim=1).float()
            padded = functional.pad(amax, (0, -len(amax) % block_rows))
            scale = padded.view(-1, block_rows).amax(dim=1).clamp(min=1e-12) / E4M3_MAX
            inputs[f"block_scale_{name}"][:, step] = scale
            by_row = scale.repeat_interleave(block_rows, dim=0)[: x.shape[0], None]
            values = x[:, cols].float() / by_row
            quantised[:, cols] = values.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
        inputs[name] = quantised
    return inputs


def quantise_fp8(x: torch.Tensor, *, rowwise: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(e4m3 matrix, fp32 scales), x = matrix * scale; one scale per row [rows,1] or one in all.

    Clamped before the cast: torch 2.11 turns an overflow into NaN, 2.13 saturates.
    """
    amax = x.abs().amax(dim=1, keepdim=True) if rowwise else x.abs().amax()
    scale = amax.float().clamp(min=1e-12) / E4M3_MAX
    quantised = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    for rows in torch.arange(x.shape[0]).split(_CHUNK):
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        values = x[part].float() / (scale[part] if rowwise else scale)
        quantised[part] = values.clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return quantised, scale


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The product through `provider`; raises Unsupported for shapes and types it refuses."""
    spec = GEMM_RECIPES[recipe]
    if _blockwise(spec) and shape["k"] % BLOCK:
        raise Unsupported(f"{recipe} needs K to be a multiple of {BLOCK}; got k={shape['k']}")
    if provider == "triton":
        _check_triton(spec, shape)
        return _triton_blocks if _blockwise(spec) else _triton_product(spec)
    if provider not in ("cublaslt", "torch_cpu"):
        raise Unsupported(f"unknown provider '{provider}' for op gemm")
    if spec.math_dtype == "fp8":
        bad = [f"{axis}={shape[axis]}" for axis in ("n", "k") if shape[axis] % 16]
        if bad and provider == "cublaslt":
            got = ", ".join(bad)
            raise Unsupported(f"cuBLASLt fp8 needs N and K to be multiples of 16; got {got}")
        if _blockwise(spec):
            # torch multiplies 1 x 128 by 128 x 128 blocks through cuBLASLt 12.9 on Hopper alone
            hopper = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
            if not hopper or torch.version.hip is not None:
                wanted = "scales per 1x128 and 128x128"
                raise Unsupported(f"torch has products of {wanted} on Hopper GPUs alone")
            return _library_blocks
        return _scaled_product(spec)
    if spec.math_dtype == "int8":
        return lambda inputs: torch._int_mm(inputs["a"], inputs["b"].t())
    return lambda inputs: torch.mm(inputs["a"], inputs["b"].t())


def _check_triton(spec: Recipe, shape: Mapping[str, int]) -> None:
    if spec.math_dtype != "fp8":
        raise Unsupported(f"provider 'triton' of op gemm has fp8 products only; got {spec.name}")
    if shape["k"] % 16:
        raise Unsupported(
            "provider 'triton' of op gemm needs K to be a multiple of 16 (the tensor memory unit "
            f"reads units of 16 bytes); got k={shape['k']}"
        )
    require_e4m3("provider 'triton' of op gemm")


def _triton_product(spec: Recipe) -> Call:
    # Imported here: a CPU study needs no Triton.
    from kernels.gemm import axiswise  # noqa: PLC0415

    return lambda inputs: axiswise.gemm(
        inputs["a"],
        inputs["b"],
        inputs["scale_a"],
        inputs["scale_b"],
        accumulation=spec.accumulation,
    )


def _triton_blocks(inputs: Inputs) -> torch.Tensor:
    from kernels.gemm import blockwise  # noqa: PLC0415

    a, b, scale_a = inputs["a"], inputs["b"], inputs["block_scale_a"]
    scale_b = inputs["block_scale_b"][:, : scale_a.shape[1]]
    return blockwise.gemm(a, b, scale_a, scale_b)


def _library_blocks(inputs: Inputs) -> torch.Tensor:
    return functional.scaled_mm(
        inputs["a"],
        inputs["b"].t(),
        inputs["block_scale_a"],
        functional.ScalingType.BlockWise1x128,
        inputs["block_scale_b"].t(),
        functional.ScalingType.BlockWise128x128,
        output_dtype=torch.bfloat16,
        use_fast_accum=False,
    )


def _scaled_product(spec: Recipe) -> Call:
    scaling = (
        functional.ScalingType.RowWise if _rowwise(spec) else functional.ScalingType.TensorWise
    )
    fast = spec.accumulation == "fast"

    def call(inputs: Inputs) -> torch.Tensor:
        return functional.scaled_mm(
            inputs["a"],
            inputs["b"].t(),
            inputs["scale_a"],
            scaling,
            inputs["scale_b"],
            scaling,
            output_dtype=torch.bfloat16,
            use_fast_accum=fast,
        )

    return call


def relative_error(recipe: str, inputs: Inputs, output: torch.Tensor) -> float:
    """Error of the product against float64 (int8: exact in float64).

    Small products are checked whole. Large ones are checked on 64 rows, spread over all of M, and
    on the whole of C projected on a random vector v: C v against A (B.T v), which any wrong tile
    moves (Freivalds, 1979). A projection of few rows can come close to zero by chance, and its
    relative error then means nothing: a product of 64 rows and less is checked on all of them.
    """
    m, n, k = inputs["a"].shape[0], inputs["b"].shape[0], inputs["a"].shape[1]
    if 2.0 * m * n * k <= _FULL_REFERENCE_FLOPS:
        return norm_error(output, dequantised(inputs, "a") @ dequantised(inputs, "b").t())
    count = min(m, _SAMPLED_ROWS)
    rows = torch.linspace(0, m - 1, count, dtype=torch.float32, device=output.device).long()
    a, chunks = dequantised(inputs, "a", rows), torch.arange(n, device=rows.device).split(_CHUNK)
    expected = torch.cat([a @ dequantised(inputs, "b", chunk).t() for chunk in chunks], dim=1)
    sampled = norm_error(output[rows], expected)
    if m <= _SAMPLED_ROWS:
        return sampled
    return worst(sampled, _projection_error(inputs, output))


def _projection_error(inputs: Inputs, output: torch.Tensor) -> float:
    n, k = inputs["b"].shape
    v = torch.sign(torch.randn(n, dtype=torch.float32, device=output.device)).double()
    folded = torch.zeros(k, dtype=torch.float64, device=output.device)
    for part in torch.arange(n, device=output.device).split(_CHUNK):
        folded += dequantised(inputs, "b", part).t() @ v[part]
    parts = torch.arange(output.shape[0], device=output.device).split(_CHUNK)
    expected = torch.cat([dequantised(inputs, "a", part) @ folded for part in parts])
    projected = torch.cat([output[part].double() @ v for part in parts])
    return norm_error(projected, expected)


def dequantised(inputs: Inputs, name: str, rows: torch.Tensor | None = None) -> torch.Tensor:
    """Operand `name`, or chosen rows of it, in float64 with its scales applied."""
    operand = values = inputs[name]
    if rows is not None and operand.dtype == torch.float8_e4m3fn:  # torch indexes bytes alone
        values = operand.view(torch.uint8)[rows].view(operand.dtype)
    elif rows is not None:
        values = operand[rows]
    blocks = inputs.get(f"block_scale_{name}")
    if blocks is not None:
        block_rows = 1 if name == "a" else BLOCK
        every = torch.arange(operand.shape[0], device=blocks.device)
        by_row = blocks[(every if rows is None else rows) // block_rows]
        scales = by_row.double().repeat_interleave(BLOCK, dim=1)[:, : operand.shape[1]]
        return values.double() * scales
    scale = inputs.get(f"scale_{name}")
    if scale is None:
        return values.double()
    column = scale.reshape(-1, 1).double()
    return values.double() * (column[rows] if rows is not None and column.shape[0] > 1 else column)


def quantisation_error(
    recipe: str, inputs: Inputs, draw_operands: Callable[[], Inputs]
) -> float | None:
    """||A' B'.T - A B.T|| / ||A B.T|| in float64, A' and B' quantised, A and B as drawn.

    On 64 rows of A and 4096 rows of B at most, spread over all of them. 0 for formats that hold
    the draws; None for int8, whose inputs are not scaled to their range.
    """
    dtype = GEMM_RECIPES[recipe].b.dtype
    if dtype in ("bf16", "fp32", "int8"):
        return None if dtype == "int8" else 0.0
    rows_a, rows_b = spread_rows(inputs)
    quantised = dequantised(inputs, "a", rows_a) @ dequantised(inputs, "b", rows_b).t()
    return norm_error(quantised, product_of_rows(draw_operands(), rows_a, rows_b))


def spread_rows(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices of at most 64 rows of A and 4096 of B, first and last among them."""
    m, n, device = inputs["a"].shape[0], inputs["b"].shape[0], inputs["a"].device
    rows_a = torch.linspace(0, m - 1, min(m, _SAMPLED_ROWS), device=device, dtype=torch.float64)
    rows_b = torch.linspace(0, n - 1, min(n, _CHUNK), device=device, dtype=torch.float64)
    return rows_a.round().long(), rows_b.round().long()


def product_of_rows(inputs: Inputs, rows_a: torch.Tensor, rows_b: torch.Tensor) -> torch.Tensor:
    """Chosen rows of A times chosen rows of B in float64."""
    return inputs["a"][rows_a].double() @ inputs["b"][rows_b].double().t()


def tolerance(recipe: str) -> float:
    """Largest relative error of a correct product in this recipe."""
    spec = GEMM_RECIPES[recipe]
    if spec.math_dtype == "fp8":
        return _FP8_TOLERANCE[spec.accumulation]
    return _TOLERANCE[spec.math_dtype]


def _rowwise(spec: Recipe) -> bool:
    return spec.a.scale is not None and (spec.a.scale.rows, spec.a.scale.cols) == (1, None)


def _blockwise(spec: Recipe) -> bool:
    return spec.b.scale is not None and spec.b.scale.rows == BLOCK


def _to_int8(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 32).round().clamp(-128, 127).to(torch.int8)
