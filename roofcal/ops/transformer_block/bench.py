"""Providers of a block of a language model, and their check against float32 arithmetic.

bf16_compile      torch.compile of the block in bf16
triton            its linears by kernels.linear.layer, compiled: our casts, products of cuBLASLt
triton_products   the same with our products
triton_inputs     as triton, with linears that save their inputs (kernels.linear.layer: saves)
torchao           its linears by torchao.float8, compiled; an optional package
torch_cpu         kernels.linear.layer on a CPU: right values, nothing to compare speeds with

A call returns the output and the gradients of x and of all parameters, new tensors every time.
"""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.nn import functional

from roofcal.ops.bench import Call, Inputs, compiled_for_one_shape, draw, norm_error, worst
from roofcal.ops.linear.bench import PRODUCTS_OF, check_provider, torchao_converted
from roofcal.ops.linear.spec import RECIPES, recipe
from roofcal.ops.spec import Unsupported
from roofcal.ops.transformer_block.spec import OP, matrices, shape_problem

_EPSILON: Final = 1e-5  # of the norms: Llama-3's config.json
_THETA: Final = 500_000.0  # of the rotary positions: The Llama 3 Herd of Models, section 3.2
NORMS: Final = ("attention_norm", "mlp_norm")
_DIFFERENTIATED: Final = ("x", *NORMS, "qkv", "attention_out", "gate_up", "down")
OUTPUTS: Final = ("output", *(f"grad_{name}" for name in _DIFFERENTIATED))
# The largest error is that of grad_qkv or of the first norm, behind all four linears and attention:
# 0.9 % in bf16, 9.2 % in fp8 and 10.9 % in mxfp8 on a CPU, with sequences of 32 to 6144 alike.
# torchao's linears alone are up to 1.7 times as far off as ours (roofcal.ops.linear.bench).
_TOLERANCE: Final = {"bf16": 1.5e-2, "fp8": 1.3e-1, "mxfp8": 1.5e-1}
PROVIDER_TOLERANCE: Final = {"torchao": 2.2e-1}


def make_inputs(
    name: str,
    shape: Mapping[str, int],
    generator: torch.Generator,
    distribution: str,
) -> dict[str, torch.Tensor]:
    """x and grad_out [tokens, hidden], weights / sqrt(K) and norms in bf16, rotary factors in fp32.

    rotary [sequence, head_dim / 2, 2] holds the cosine and sine of every position and pair.
    """
    tokens, hidden = shape["tokens"], shape["hidden"]
    device = generator.device
    inputs = {"x": draw(generator, distribution, tokens, hidden)}
    inputs |= {norm: torch.ones(hidden, dtype=torch.bfloat16, device=device) for norm in NORMS}
    for weight, (n, k) in matrices(shape).items():
        inputs[weight] = draw(generator, distribution, n, k) * k**-0.5
    inputs["grad_out"] = draw(generator, distribution, tokens, hidden)
    pairs = torch.arange(0, shape["head_dim"], 2, device=device) / shape["head_dim"]
    angles = torch.outer(torch.arange(shape["sequence"], device=device), _THETA**-pairs)
    inputs["rotary"] = torch.stack((angles.cos(), angles.sin()), dim=-1)
    return inputs


def turned(x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
    """Heads [..., sequence, head_dim], each first half turned with its second by the position.

    Rotary position embedding (Su et al. 2021, arXiv 2104.09864), in halves as Llama-3's weights in
    Hugging Face's format have it; in fp32, rounded once.
    """
    first, second = x.to(rotary.dtype).chunk(2, dim=-1)
    cosine, sine = rotary.unbind(-1)
    halves = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(halves, dim=-1).to(x.dtype)


class Block(torch.nn.Module):
    """The block of the op's spec as a module of bf16 linears; parameters without memory."""

    attention_norm: torch.nn.Module
    mlp_norm: torch.nn.Module
    qkv: torch.nn.Module
    attention_out: torch.nn.Module
    gate_up: torch.nn.Module
    down: torch.nn.Module

    def __init__(self, shape: Mapping[str, int]) -> None:
        super().__init__()
        kinds: dict[str, Any] = {"device": "meta", "dtype": torch.bfloat16}
        self.heads = (shape["heads"], shape["kv_heads"], shape["kv_heads"])
        self.sequence, self.head_dim = shape["sequence"], shape["head_dim"]
        for norm in NORMS:
            self.add_module(norm, torch.nn.RMSNorm(shape["hidden"], _EPSILON, **kinds))
        for name, (n, k) in matrices(shape).items():
            self.add_module(name, torch.nn.Linear(k, n, bias=False, **kinds))

    def forward(self, x: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
        """x [tokens, hidden] -> [tokens, hidden]."""
        x = x + self.attention_out(self._attention(self.qkv(self.attention_norm(x)), rotary))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        y: torch.Tensor = x + self.down(functional.silu(gate) * up)
        return y

    def _attention(self, qkv: torch.Tensor, rotary: torch.Tensor) -> torch.Tensor:
        """[tokens, widths of q, k and v] -> [tokens, heads * head_dim]."""
        per_head = qkv.view(-1, self.sequence, sum(self.heads), self.head_dim).transpose(1, 2)
        q, k, v = per_head.split(self.heads, dim=1)
        y = functional.scaled_dot_product_attention(
            turned(q, rotary), turned(k, rotary), v, is_causal=True, enable_gqa=True
        )
        return y.transpose(1, 2).reshape(qkv.shape[0], -1)


def build(provider: str, name: str, shape: Mapping[str, int]) -> Call:
    """Forward and backward through `provider`; raises Unsupported for what it refuses."""
    if (problem := shape_problem(shape)) is not None:
        raise Unsupported(problem)
    sides = {axis: shape[axis] for axis in ("hidden", "intermediate", "head_dim")}
    check_provider(OP.name, provider, name, sides)
    block: torch.nn.Module = Block(shape)
    if provider == "torchao":
        block = torchao_converted(block, name)
    elif provider != "bf16_compile":
        from kernels.linear.layer import convert_linears  # noqa: PLC0415 (needs Triton)

        saves = "inputs" if provider == "triton_inputs" else "casts"
        block = convert_linears(block, recipe(name), PRODUCTS_OF[provider], saves)

    def forward(x: torch.Tensor, rotary: torch.Tensor, *parameters: torch.Tensor) -> Any:
        names = (f"{name}.weight" for name in _DIFFERENTIATED[1:])
        by_name = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(block, by_name, (x, rotary))

    layer = forward if provider == "torch_cpu" else compiled_for_one_shape(forward)

    def call(inputs: Inputs) -> tuple[torch.Tensor, ...]:
        leaves = [inputs[key].detach().requires_grad_() for key in _DIFFERENTIATED]
        y = layer(leaves[0], inputs["rotary"], *leaves[1:])
        return (y.detach(), *torch.autograd.grad(y, leaves, inputs["grad_out"]))

    return call


def exact_block(inputs: Inputs) -> torch.Tensor:
    """The block in the type of the inputs, written down without the module that is timed.

    Heads of k and v are repeated: attention in fp32 has no kernel for groups but one that keeps all
    scores, 17 GB a sequence of 8192 at 64 heads.
    """
    x, rotary = inputs["x"], inputs["rotary"].to(inputs["x"].dtype)
    sequence, head_dim = rotary.shape[0], 2 * rotary.shape[1]
    width = inputs["attention_out"].shape[1]
    kv_width = (inputs["qkv"].shape[0] - width) // 2

    def normed(values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return values * (values.square().mean(-1, keepdim=True) + _EPSILON).rsqrt() * weight

    def by_head(values: torch.Tensor) -> torch.Tensor:
        heads = values.view(-1, sequence, values.shape[1] // head_dim, head_dim).transpose(1, 2)
        return heads.repeat_interleave(width // values.shape[1], dim=1)

    qkv = normed(x, inputs["attention_norm"]) @ inputs["qkv"].t()
    q, k, v = (by_head(part) for part in qkv.split((width, kv_width, kv_width), dim=1))
    attended = functional.scaled_dot_product_attention(
        turned(q, rotary), turned(k, rotary), v, is_causal=True
    )
    h = x + attended.transpose(1, 2).reshape(len(x), width) @ inputs["attention_out"].t()
    gate, up = (normed(h, inputs["mlp_norm"]) @ inputs["gate_up"].t()).chunk(2, dim=1)
    return h + (gate * gate.sigmoid() * up) @ inputs["down"].t()


def exact_outputs(inputs: Inputs) -> dict[str, torch.Tensor]:
    """Output and gradients by name of OUTPUTS, of the same inputs in float32."""
    wide = {key: value.float() for key, value in inputs.items()}
    leaves = [wide[key].requires_grad_() for key in _DIFFERENTIATED]
    y = exact_block(wide)
    exact = (y.detach(), *torch.autograd.grad(y, leaves, wide["grad_out"]))
    return dict(zip(OUTPUTS, exact, strict=True))


def relative_error(name: str, inputs: Inputs, output: tuple[torch.Tensor, ...]) -> float:
    """||output - exact|| / ||exact||, of the worst of output and gradients."""
    return worst(*map(norm_error, output, exact_outputs(inputs).values()))


def tolerance(name: str) -> float:
    """Largest relative error of output and gradients of a correct block in this recipe."""
    if "mxfp8" in recipe(name).granularities:
        return _TOLERANCE["mxfp8"]
    return _TOLERANCE["bf16" if RECIPES.get(name) == "high_precision" else "fp8"]
