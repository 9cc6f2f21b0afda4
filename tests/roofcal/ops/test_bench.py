"""Inputs and errors that all ops share."""

import math
from functools import partial
from typing import Any, get_args

import pytest
import torch

from roofcal.core.records import Distribution
from roofcal.ops.bench import (
    compiled_for_one_shape,
    draw,
    load_bench,
    norm_error,
    quantisation_error,
    relative_errors,
    worst,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_equal_seeds_give_equal_data_and_others_do_not() -> None:
    first = draw(generator(), "normal", 8, 8)
    assert torch.equal(draw(generator(), "normal", 8, 8), first)
    assert not torch.equal(draw(generator(1), "normal", 8, 8), first)


def test_normal_data_is_normal_and_zeros_are_zeros() -> None:
    x = draw(generator(), "normal", 200, 200).float()
    assert abs(float(x.mean())) < 0.02
    assert abs(float(x.std()) - 1) < 0.02
    assert not draw(generator(), "zeros", 4, 4).any()


def test_another_distribution_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown distribution 'ones'; allowed: normal, outlier_c"):
        draw(generator(), "ones", 1)


@pytest.mark.parametrize("distribution", get_args(Distribution))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_every_distribution_is_drawn_again_from_an_equal_seed(
    distribution: str, dtype: torch.dtype
) -> None:
    x = draw(generator(), distribution, 24, 700, dtype=dtype)
    assert (x.shape, x.dtype) == ((24, 700), dtype)
    assert torch.equal(draw(generator(), distribution, 24, 700, dtype=dtype), x)
    if distribution != "zeros":
        assert not torch.equal(draw(generator(1), distribution, 24, 700, dtype=dtype), x)


@pytest.mark.parametrize(("columns", "outliers"), [(16, 1), (512, 1), (513, 2), (1600, 4)])
def test_a_few_columns_are_many_times_larger(columns: int, outliers: int) -> None:
    x = draw(generator(), "outlier_channels", 256, columns).float()
    deviations = x.std(0)
    large = deviations > 30
    assert int(large.sum()) == outliers
    assert deviations[large].mean() == pytest.approx(64, rel=0.1)
    assert x[:, ~large].std() == pytest.approx(1, rel=0.05)


def test_heavy_tails_are_those_of_student() -> None:
    """P(|t| > 3.182) = 5 % and P(|t| > 12.92) = 0.1 % with 3 degrees of freedom (any t table)."""
    x = draw(generator(), "heavy_tails", 1000, 1000, dtype=torch.float32)
    assert float((x.abs() > 3.182).float().mean()) == pytest.approx(0.05, rel=0.02)
    assert float((x.abs() > 12.92).float().mean()) == pytest.approx(0.001, rel=0.15)
    assert abs(float(x.median())) < 0.01


def test_positive_data_is_the_size_of_normal_data() -> None:
    x = draw(generator(), "all_positive", 200, 200)
    assert torch.equal(x, draw(generator(), "normal", 200, 200).abs())
    assert bool((x >= 0).all())


def test_the_error_is_relative_to_the_reference() -> None:
    reference = torch.tensor([3.0, 4.0])
    assert norm_error(torch.tensor([3.0, 4.5]), reference) == pytest.approx(0.1)
    assert norm_error(torch.tensor([0.5]), torch.tensor([0.0])) == 0.5
    assert not norm_error(torch.tensor([float("nan")]), torch.tensor([1.0])) <= 1e9


def test_a_bench_is_found_by_the_name_of_its_op() -> None:
    assert load_bench("gemm").tolerance("bf16") > 0
    assert load_bench("probe_math") is load_bench("gemm")
    with pytest.raises(KeyError):
        load_bench("gem")


def test_the_worst_error_is_nan_wherever_one_is() -> None:
    assert worst(0.1, 0.3, 0.2) == 0.3
    for errors in ((0.1, math.nan), (math.nan, 0.1), (math.nan,)):
        assert math.isnan(worst(*errors))


def test_the_draws_are_made_only_for_ops_that_compare_with_them() -> None:
    def never() -> dict[str, torch.Tensor]:
        raise AssertionError

    for op in ("probe_math", "cast"):
        assert quantisation_error(op, load_bench(op), "bf16", {}, never) is None
    assert quantisation_error("gemm", load_bench("gemm"), "bf16", {}, never) == 0


def test_errors_are_those_of_each_output_where_the_op_tells_them_apart() -> None:
    shape = {"m": 32, "n": 32, "k": 64}
    for op, names in (("gemm", None), ("linear", ["output", "grad_input", "grad_weight"])):
        bench = load_bench(op)
        inputs = bench.make_inputs("bf16", shape, generator(), "normal")
        output = bench.build("torch_cpu", "bf16", shape)(inputs)
        error, by_output = relative_errors(bench, "bf16", inputs, output)
        assert error == bench.relative_error("bf16", inputs, output)
        assert (by_output and list(by_output)) == names
        assert by_output is None or error == max(by_output.values())


def test_every_shape_of_a_function_stays_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo gives up after eight shapes of one function and runs it eagerly, without a word."""
    compiled: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))

    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    functions = [compiled_for_one_shape(twice) for _ in range(12)]
    for _ in range(2):
        for size, function in enumerate(functions):
            assert function(torch.ones(size + 2)).sum() == 2 * (size + 2)
    assert len(compiled) == len(functions)
