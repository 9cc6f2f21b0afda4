"""A kernel that does nothing (Triton), or an operation on no elements (CPU)."""

from collections.abc import Mapping
from typing import Any

import torch

from roofcal.ops.bench import Call, Inputs
from roofcal.ops.spec import Unsupported


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """x: no elements, on the device."""
    return {"x": torch.empty(0, device=generator.device)}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """One launch over `grid` programs."""
    if provider == "torch_eager":
        return lambda inputs: inputs["x"].add_(1)
    if provider != "triton":
        raise Unsupported(f"unknown provider '{provider}' for op probe_launch")
    # Imported here: a CPU study needs no Triton.
    from kernels.streams.empty import empty  # noqa: PLC0415

    return lambda inputs: empty(shape["grid"])


def relative_error(recipe: str, inputs: Inputs, output: Any) -> float:
    """Nothing is computed, so nothing can be wrong."""
    return 0.0


def tolerance(recipe: str) -> float:
    """See relative_error."""
    return 0.0
