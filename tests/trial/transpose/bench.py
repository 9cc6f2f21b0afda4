"""Transposes by torch."""

from collections.abc import Mapping

import torch

from roofcal.ops.bench import Call, Inputs, draw, norm_error
from roofcal.ops.spec import Unsupported


def make_inputs(
    recipe: str, shape: Mapping[str, int], generator: torch.Generator, distribution: str
) -> dict[str, torch.Tensor]:
    """x [rows, cols] in bf16."""
    return {"x": draw(generator, distribution, shape["rows"], shape["cols"])}


def build(provider: str, recipe: str, shape: Mapping[str, int]) -> Call:
    """The transpose, written to memory."""
    if provider != "torch_eager":
        raise Unsupported(f"unknown provider '{provider}' for op transpose")
    return lambda inputs: inputs["x"].t().contiguous()


def relative_error(recipe: str, inputs: Inputs, output: torch.Tensor) -> float:
    """Of every element."""
    return norm_error(output, inputs["x"].t())


def tolerance(recipe: str) -> float:
    """Copies are exact."""
    return 0.0
