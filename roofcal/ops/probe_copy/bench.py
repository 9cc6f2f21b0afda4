"""Streams over memory: kernels.streams.memory (Triton) and torch's own operations."""

from collections.abc import Mapping
from typing import Any, Final

import torch

from roofcal.ops.bench import Call, Inputs, draw, norm_error
from roofcal.ops.spec import Unsupported

_FILL: Final = 1.25


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """fp32 vectors of size_bytes: src for read, dst for write, both for copy."""
    count = shape["size_bytes"] // 4
    inputs: dict[str, torch.Tensor] = {}
    if recipe in ("read", "copy"):
        inputs["src"] = draw(generator, distribution, count, dtype=torch.float32)
    if recipe in ("write", "copy"):
        inputs["dst"] = torch.full((count,), float("nan"), device=generator.device)
    return inputs


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The stream; read returns the sum (partial sums from Triton), write and copy return dst."""
    if provider == "torch_eager":
        return _TORCH[recipe]
    if provider != "triton":
        raise Unsupported(f"unknown provider '{provider}' for op probe_copy")
    # Imported here: a CPU study needs no Triton.
    from kernels.streams import memory as stream  # noqa: PLC0415

    calls: dict[str, Call] = {
        "read": lambda inputs: stream.read_sum(inputs["src"]),
        "write": lambda inputs: stream.fill(inputs["dst"], _FILL),
        "copy": lambda inputs: stream.copy(inputs["src"], inputs["dst"]),
    }
    return calls[recipe]


_TORCH: Final[dict[str, Call]] = {
    "read": lambda inputs: inputs["src"].sum(),
    "write": lambda inputs: inputs["dst"].fill_(_FILL),
    "copy": lambda inputs: inputs["dst"].copy_(inputs["src"]),
}


def relative_error(recipe: str, inputs: Inputs, output: Any) -> float:
    """read: error of the sum relative to the norm of the data; write, copy: of every element."""
    if recipe == "read":
        total = inputs["src"].sum(dtype=torch.float64)
        scale = torch.linalg.vector_norm(inputs["src"], dtype=torch.float64).clamp(min=1.0)
        return float((output.double().sum() - total).abs() / scale)
    wanted = inputs["src"] if recipe == "copy" else torch.full_like(inputs["dst"], _FILL)
    # In float64, vectors of 256 MB took a third of the time of a CPU's study of this op.
    return 0.0 if torch.equal(inputs["dst"], wanted) else norm_error(inputs["dst"], wanted)


def tolerance(recipe: str) -> float:
    """Copies are exact; a float32 sum of 2**30 normal values loses about 1e-4 of their norm."""
    return 1e-3 if recipe == "read" else 0.0
