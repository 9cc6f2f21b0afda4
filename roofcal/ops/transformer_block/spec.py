"""Forward and backward of one block of a dense decoder, such as Llama-3's (arXiv 2407.21783, 2024).

    q, k, v = rms_norm(x) @ qkv.T           h = x + attention(q, k, v) @ attention_out.T
    gate, up = rms_norm(h) @ gate_up.T      y = h + (silu(gate) * up) @ down.T

`attention` turns q and k by their positions and is causal within each sequence; heads of q share
those of k and v in groups. Recipes are those of op linear and hold for the four linears; all else
stays in bf16. Weights are the matrices of config/models, with the names that they have there.

    tokens        rows of x: whole sequences, one after the other
    sequence      tokens of a sequence
    hidden        columns of x
    intermediate  columns of gate and of up
    heads, kv_heads, head_dim   of the attention
"""

from collections.abc import Mapping
from typing import Final

from roofcal.core.language_models import LanguageModel
from roofcal.core.recipes import Work, nbytes
from roofcal.ops.linear import spec as linear
from roofcal.ops.regimes import gemm_regime
from roofcal.ops.spec import OpSpec, Shape

# forward: scores and weighted values; backward: gradients of v, weights, q and k
_ATTENTION_PRODUCTS: Final = 6
_NORMS: Final = 2


def matrices(shape: Shape) -> dict[str, tuple[int, int]]:
    """Weight -> (n, k), in the order in which a token meets them."""
    hidden, intermediate = shape["hidden"], shape["intermediate"]
    width = shape["heads"] * shape["head_dim"]
    return {
        "qkv": (width + 2 * shape["kv_heads"] * shape["head_dim"], hidden),
        "attention_out": (hidden, width),
        "gate_up": (2 * intermediate, hidden),
        "down": (hidden, intermediate),
    }


def attention_flops(shape: Shape) -> float:
    """Operations of causal attention, forward and backward, without what a kernel computes again.

    A token attends to (sequence + 1) / 2 tokens on average, and each of six products multiplies and
    adds heads * head_dim numbers for such a pair (two forward, four backward: Dao 2023, arXiv
    2307.08691, counts a seventh, because its backward pass computes the scores again).
    """
    pairs = shape["tokens"] * (shape["sequence"] + 1) / 2
    return 2.0 * _ATTENTION_PRODUCTS * pairs * shape["heads"] * shape["head_dim"]


def work(name: str, shape: Shape) -> Work:
    """Least work: x, grad_out and weights read, y and all gradients written once, in bf16.

    math_dtype is that of the narrowest product, so that the work stays a bound.
    """
    fp8 = any(product.is_fp8 for product in linear.recipe(name).products.values())
    tokens, hidden = shape["tokens"], shape["hidden"]
    weights = sum(n * k for n, k in matrices(shape).values())
    once = nbytes("bf16", 2 * tokens * hidden) + nbytes("bf16", weights + _NORMS * hidden)
    return Work(
        flops=6.0 * tokens * weights + attention_flops(shape),
        math_dtype="fp8" if fp8 else "bf16",
        dram_read_bytes=once,
        dram_write_bytes=once,
    )


def regime(shape: Shape) -> str:
    """The regime of its largest product, gate and up."""
    return gemm_regime(shape["tokens"], *matrices(shape)["gate_up"])


def block_shape(model: LanguageModel, tokens: int, sequence: int) -> Shape:
    """The block of a language model; fewer tokens than a sequence are one sequence.

    Raises ValueError for a model without such a block, and for a part of a sequence.
    """
    architecture = model.architecture
    if architecture is None or architecture.latent or architecture.experts:
        raise ValueError(
            f"model '{model.model}' has no block with the matrices qkv, attention_out, gate_up and "
            "down: that takes an `architecture` without `latent` and `experts`"
        )
    sequence = min(sequence, tokens)
    if tokens % sequence:
        raise ValueError(f"{tokens} tokens are no whole sequences of {sequence}")
    return {
        "tokens": tokens,
        "sequence": sequence,
        "hidden": model.matrices["qkv"].k,
        "intermediate": model.matrices["down"].k,
        "heads": architecture.heads,
        "kv_heads": architecture.kv_heads,
        "head_dim": architecture.head_dim,
    }


def shape_problem(shape: Shape) -> str | None:
    """Why a shape is no block, which has whole sequences, groups of heads, and pairs to turn."""
    for axis, divisor in (("tokens", "sequence"), ("heads", "kv_heads")):
        if shape[axis] % shape[divisor]:
            return f"{axis}={shape[axis]} is no multiple of {divisor}={shape[divisor]}"
    if shape["head_dim"] % 2:
        return f"rotary positions turn pairs; head_dim={shape['head_dim']} is odd"
    return None


def size_multiples(provider: str, name: str) -> Mapping[str, int]:
    """What the bench refuses: fp8 products of sides off 16."""
    return {} if name == "bf16" else {"hidden": 16, "intermediate": 16, "head_dim": 16}


# triton_inputs: triton whose linears save their inputs for the backward pass, not fp8 casts
PROVIDERS: Final = {**linear.PROVIDERS, "cuda": (*linear.PROVIDERS["cuda"], "triton_inputs")}
OP = OpSpec(
    name="transformer_block",
    role="study",
    axes=("tokens", "sequence", "hidden", "intermediate", "heads", "kv_heads", "head_dim"),
    recipes=tuple(linear.RECIPES),
    providers=PROVIDERS,  # type: ignore[arg-type]
    work=work,
    regime=regime,
    block_shape=block_shape,
    baseline_recipe="bf16",
    written_recipe=linear.written_recipe,
    shape_problem=shape_problem,
    size_multiples=size_multiples,
    calibrated_on=("probe_math", "probe_cast"),
)
