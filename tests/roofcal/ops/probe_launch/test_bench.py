"""An operation on no elements runs, and leaves none."""

import pytest
import torch

from roofcal.ops.probe_launch import bench
from roofcal.ops.spec import Unsupported


def test_it_runs_on_no_elements() -> None:
    inputs = bench.make_inputs("empty", {"grid": 1}, torch.Generator(), "normal")
    output = bench.build("torch_eager", "empty", {"grid": 1})(inputs)
    assert output.numel() == 0
    assert bench.relative_error("empty", inputs, output) <= bench.tolerance("empty")


def test_an_unknown_provider_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="unknown provider 'x'"):
        bench.build("x", "empty", {"grid": 1})
