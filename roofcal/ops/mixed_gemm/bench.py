"""Providers of products with narrow weights, their layouts, and the check against float64.

cublaslt         bf16 and fp8 products, as op gemm runs them
triton           kernels.int4 without its specialised kernel (rule.direct_or_staged)
triton_chained   the same with programmatic dependent launch: in a chain of kernels, its start
                 overlaps the end of the one before: do not compare it with plain launches
triton_specialised  kernels.int4.specialised, from 17 tokens on; int4_gemm takes it where
                 rule.is_for_specialised says so: almost always where K is 4096 or more
tinygemm         torch's _weight_int4pack_mm (CPUs have one too); it stores w as scale * (q - 8) +
                 zero, always with a zero, and rounds w to bf16
gemlite          GemLite's Triton kernels (optional extra `peers`), in the state that its import
                 leaves them in: autotune "fast", a search through 17 to 23 configurations per
                 shape, group and number of tokens on the first call, before anything is timed;
                 on an H100 it has configurations of its own for some shapes. It adds partial
                 sums in bf16 by atomics, so its error is larger than the others'
torch_compile    weights converted in the product's prologue, fused as Inductor sees fit
torch_cpu        weights converted, then multiplied: on CPUs, nothing to compare speeds with
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from kernels.common.architecture import compute_units, is_hopper
from kernels.int4 import gemm as int4_gemm
from kernels.int4 import packing as int4_packing
from kernels.int4 import rule as int4_rule
from kernels.int4.packing import Int4Weights, Quantised
from kernels.int4.rule import Int4Config, Int4PlainConfig
from roofcal.core.recipes import RECIPES, Recipe
from roofcal.ops.bench import Call, Inputs, compiled_for_one_shape, draw, norm_error
from roofcal.ops.gemm import bench as gemm
from roofcal.ops.mixed_gemm.spec import CONTENDERS
from roofcal.ops.spec import Unsupported

_CHUNK: Final = 4096  # rows of B that are dequantised to float64 at once
# bf16 rounding of the output costs 1.7e-3; tinygemm rounds the weights as well
_TOLERANCE: Final = 5e-3
# up to 512 partial sums of a dot product, each rounded to bf16: 0.8e-3 * sqrt(512 / 2), doubled
PROVIDER_TOLERANCE: Final = {"gemlite": 3e-2}
_SPECIALISED: Final = "triton_specialised"
_OURS: Final = ("triton", "triton_chained", _SPECIALISED)
_INT4_PROVIDERS: Final = (*_OURS, "tinygemm", "gemlite")
_INNER_TILES: Final = 8  # of tinygemm: k is a multiple of 16 times as many


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """a [M,K] and b [N,K], as op gemm makes them, b quantised as the recipe says.

    int4: b holds whole numbers 0..15 (uint8), with scales and maybe zeros [N, K / group].
    Raises Unsupported for a K that cannot be cut in groups.
    """
    if recipe in CONTENDERS:
        return gemm.make_inputs(recipe, shape, generator, distribution)
    a = draw(generator, distribution, shape["m"], shape["k"])
    b = draw(generator, distribution, shape["n"], shape["k"])
    spec = RECIPES[recipe]
    if spec.b.dtype != "int4":
        quantised, scale = gemm.quantise_fp8(b, rowwise=True)
        return {"a": a, "b": quantised, "scale_b": scale}
    _check_int4(shape["n"], shape["k"], _group(spec))
    parts = [
        int4_packing.quantise(part, _group(spec), symmetric=not spec.b.zero_point)
        for part in b.split(_CHUNK)
    ]
    inputs = {"a": a, "b": torch.cat([p.q for p in parts])}
    inputs["scale_b"] = torch.cat([p.scales for p in parts])
    zeros = [p.zeros for p in parts if p.zeros is not None]
    return inputs | ({"zeros_b": torch.cat(zeros)} if zeros else {})


def _group(spec: Recipe) -> int:
    assert spec.b.scale is not None
    assert spec.b.scale.cols is not None
    return spec.b.scale.cols


def _check_int4(n: int, k: int, group: int) -> None:
    try:
        int4_packing.check_sizes(n, k, group)
    except ValueError as error:
        raise Unsupported(f"int4 weights [{n}, {k}]: {error}") from None


def arrange(provider: str, recipe: str, inputs: Inputs) -> Inputs:
    """The inputs with b packed for the provider; raises Unsupported where it cannot run them."""
    if recipe in CONTENDERS or RECIPES[recipe].b.dtype != "int4":
        return inputs
    if provider in _OURS:
        if not inputs["a"].is_cuda:
            none_here = "kernels.int4.gemm runs on none here"
            raise Unsupported(f"provider '{provider}' needs a GPU; {none_here}")
        weights = int4_packing.pack(_quantised(recipe, inputs))
        _config(provider, inputs["a"], weights)  # refuses before anything is timed
        packed = {"a": inputs["a"], "packed": weights.packed, "scales": weights.scales}
        return packed if weights.zeros is None else packed | {"zeros": weights.zeros}
    if provider == "gemlite":
        return _gemlite_packed(recipe, inputs)
    return _tinygemm_packed(recipe, inputs) if provider == "tinygemm" else inputs


def _config(provider: str, a: torch.Tensor, weights: Int4Weights) -> Int4Config:
    """How a provider of ours multiplies; raises Unsupported where it does not."""
    chained, tokens = provider == "triton_chained", a.shape[0]
    units = compute_units(a) if is_hopper(a) else None
    if provider == _SPECIALISED:
        many = int4_rule.for_many_tokens(weights, tokens, units) if units else None
        if many is None:
            raise Unsupported(
                f"provider '{provider}' needs sm_90, more than 16 tokens and groups of 64 or more"
            )
        return many
    config: Int4Config = int4_rule.plain(tokens)
    if units:
        config = int4_rule.direct_or_staged(weights, tokens, chained=chained, units=units)
    if chained and isinstance(config, Int4PlainConfig):
        raise Unsupported("programmatic dependent launch needs sm_90 and a shape of its kernels")
    return config


def _quantised(recipe: str, inputs: Inputs) -> Quantised:
    group = _group(RECIPES[recipe])
    zeros = inputs.get("zeros_b")
    return Quantised(q=inputs["b"], scales=inputs["scale_b"], zeros=zeros, group=group)


def _tinygemm_packed(recipe: str, inputs: Inputs) -> Inputs:
    q, scales = inputs["b"], inputs["scale_b"].t().contiguous()
    zeros = inputs.get("zeros_b")
    shift = torch.zeros_like(scales) if zeros is None else (8 - zeros.t()) * scales
    both = torch.stack([scales, shift], dim=2).contiguous()
    if q.is_cuda:
        packed = torch._convert_weight_to_int4pack((q[:, ::2] << 4 | q[:, 1::2]), _INNER_TILES)
    else:
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q.int(), 1)
    return {"a": inputs["a"], "packed": packed, "scales_and_zeros": both}


def _gemlite_library() -> Any:
    """GemLite, whose import asks for a GPU; raises Unsupported where either is missing."""
    if not torch.cuda.is_available():
        raise Unsupported("provider 'gemlite' needs a GPU; this machine has none")
    try:
        import gemlite  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise Unsupported(f"provider 'gemlite': {error}: pip install gemlite") from None
    return gemlite


def _gemlite_packed(recipe: str, inputs: Inputs) -> Inputs:
    library, group = _gemlite_library(), _group(RECIPES[recipe])
    rows, k = inputs["b"].shape
    layer = library.GemLiteLinear(
        4,
        group_size=group,
        in_features=k,
        out_features=rows,
        input_dtype=library.DType.BF16,
        output_dtype=library.DType.BF16,
    )
    zeros = inputs.get("zeros_b", int4_packing.SYMMETRIC_ZERO)
    layer.pack(inputs["b"], inputs["scale_b"], zeros)
    packed, scales, shift, unused = (tensor.detach() for tensor in layer.get_tensor_args())
    return {
        "a": inputs["a"],
        "packed": packed,
        "scales": scales,
        "shift": shift,
        "unused": unused,
        # A tensor, because inputs are tensors; on the CPU, where reading it waits for no kernel.
        "how": torch.tensor(layer.get_meta_args()),
    }


def _gemlite() -> Call:
    library = _gemlite_library()

    def call(inputs: Inputs) -> torch.Tensor:
        tensors = [inputs[name] for name in ("packed", "scales", "shift", "unused")]
        product: torch.Tensor = library.forward_functional(
            inputs["a"], None, tensors, inputs["how"].tolist()
        )
        return product

    return call


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The product through `provider`; raises Unsupported for recipes and shapes it refuses."""
    if recipe in CONTENDERS and provider in ("cublaslt", "torch_cpu"):
        return gemm.build(provider, recipe, shape)
    int4 = RECIPES[recipe].b.dtype == "int4"
    if provider == "torch_cpu" or (provider == "torch_compile" and not int4):
        return _converted(provider, recipe)
    if not int4 or provider not in _INT4_PROVIDERS:
        raise Unsupported(f"provider '{provider}' has no product of recipe '{recipe}'")
    _check_int4(shape["n"], shape["k"], _group(RECIPES[recipe]))
    if provider == "tinygemm":
        return _tinygemm(recipe, shape)
    if provider == "gemlite":
        return _gemlite()
    return _ours(provider, recipe, shape)


def _ours(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    group = _group(RECIPES[recipe])
    chosen: dict[int, Int4Config] = {}

    def call(inputs: Inputs) -> torch.Tensor:
        weights = Int4Weights(
            packed=inputs["packed"],
            scales=inputs["scales"],
            zeros=inputs.get("zeros"),
            rows=shape["n"],
            k=shape["k"],
            group=group,
        )
        a, chained = inputs["a"], provider == "triton_chained"
        config = chosen.get(a.shape[0])  # decided once, so that a call costs what int4_gemm costs
        if config is None:
            config = chosen[a.shape[0]] = _config(provider, a, weights)
        return int4_gemm.int4_gemm(a, weights, chained=chained, config=config)

    return call


def _tinygemm(recipe: str, shape: Mapping[str, int]) -> Call:
    group = _group(RECIPES[recipe])
    if shape["n"] % 16:
        raise Unsupported(f"tinygemm needs N to be a multiple of 16; got n={shape['n']}")

    def call(inputs: Inputs) -> torch.Tensor:
        a, packed, both = inputs["a"], inputs["packed"], inputs["scales_and_zeros"]
        if a.is_cuda:
            return torch._weight_int4pack_mm(a, packed, group, both)
        return torch.ops.aten._weight_int4pack_mm_for_cpu(a, packed, group, both)

    return call


def _converted(provider: str, recipe: str) -> Call:
    group = None if RECIPES[recipe].b.dtype != "int4" else _group(RECIPES[recipe])

    def product(a: torch.Tensor, b: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        if group is None:
            return (torch.mm(a, b.to(a.dtype).t()).float() * rest[0].t()).to(a.dtype)
        levels = b.float().view(b.shape[0], -1, group)
        levels = levels - (rest[1].float()[:, :, None] if len(rest) > 1 else 8)
        weights = (levels * rest[0].float()[:, :, None]).view(b.shape)
        return torch.mm(a.float(), weights.t()).to(a.dtype)

    if provider == "torch_compile":
        product = compiled_for_one_shape(product)
    names = ("a", "b", "scale_b", "zeros_b")
    return lambda inputs: product(*(inputs[name] for name in names if name in inputs))


def relative_error(recipe: str, inputs: Inputs, output: torch.Tensor) -> float:
    """||output - reference|| / ||reference|| in float64, on every element.

    The reference multiplies the dequantised weights: what rounding them to the format costs is
    `quantisation_error`, and kept apart.
    """
    if recipe in CONTENDERS:
        return gemm.relative_error(recipe, inputs, output)
    a = inputs["a"].double()
    zero = torch.zeros((), dtype=torch.float64, device=a.device)
    difference, reference = zero.clone(), zero.clone()
    for part in torch.arange(inputs["b"].shape[0], device=a.device).split(_CHUNK):
        expected = a @ _dequantised(recipe, inputs, part).t()
        difference += (output[:, part].double() - expected).square().sum()
        reference += expected.square().sum()
    scale = float(reference.sqrt())
    return float(difference.sqrt()) / scale if scale > 0 else float(difference.sqrt())


def quantisation_error(
    recipe: str, inputs: Inputs, draw_operands: Callable[[], Inputs]
) -> float | None:
    """||A' B'.T - A B.T|| / ||A B.T|| in float64, as in op gemm; with int4, A' is A."""
    if recipe in CONTENDERS:
        return gemm.quantisation_error(recipe, inputs, draw_operands)
    rows_a, rows_b = gemm.spread_rows(inputs)
    quantised = inputs["a"][rows_a].double() @ _dequantised(recipe, inputs, rows_b).t()
    return norm_error(quantised, gemm.product_of_rows(draw_operands(), rows_a, rows_b))


def _dequantised(recipe: str, inputs: Inputs, rows: torch.Tensor) -> torch.Tensor:
    """Chosen rows of B in float64."""
    if recipe not in CONTENDERS and RECIPES[recipe].b.dtype == "int4":
        return int4_packing.dequantise(_quantised(recipe, inputs), rows)
    return gemm.dequantised(inputs, "b", rows)


def tolerance(recipe: str) -> float:
    """Largest relative error of a correct product in this recipe."""
    return gemm.tolerance(recipe) if recipe in CONTENDERS else _TOLERANCE
