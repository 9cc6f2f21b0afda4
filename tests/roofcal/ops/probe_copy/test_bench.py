"""Streams on the CPU are right, and a wrong one is caught."""

import pytest
import torch

from roofcal.ops.probe_copy import bench
from roofcal.ops.spec import Unsupported

SHAPE = {"size_bytes": 4 * 1000}


@pytest.mark.parametrize("recipe", ["read", "write", "copy"])
def test_a_stream_is_right(recipe: str) -> None:
    inputs = bench.make_inputs(recipe, SHAPE, torch.Generator().manual_seed(0), "normal")
    output = bench.build("torch_eager", recipe, SHAPE)(inputs)
    assert bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


@pytest.mark.parametrize("recipe", ["write", "copy"])
def test_an_element_that_was_not_written_is_caught(recipe: str) -> None:
    inputs = bench.make_inputs(recipe, SHAPE, torch.Generator(), "normal")
    output = bench.build("torch_eager", recipe, SHAPE)(inputs)
    inputs["dst"][-1] = float("nan")  # what the destination held before
    assert not bench.relative_error(recipe, inputs, output) <= bench.tolerance(recipe)


def test_a_sum_that_left_something_out_is_caught() -> None:
    inputs = bench.make_inputs("read", SHAPE, torch.Generator(), "normal")
    error = bench.relative_error("read", inputs, inputs["src"][:-100].sum())
    assert error > bench.tolerance("read")


def test_an_unknown_provider_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="unknown provider 'dma'"):
        bench.build("dma", "read", SHAPE)
