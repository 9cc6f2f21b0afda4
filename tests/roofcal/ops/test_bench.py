"""Inputs and errors that all ops share."""

import math

import pytest
import torch

from roofcal.ops.bench import draw, load_bench, norm_error, quantisation_error, worst


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
    with pytest.raises(ValueError, match="unknown distribution 'ones'; allowed: normal, zeros"):
        draw(generator(), "ones", 1)


def test_the_error_is_relative_to_the_reference() -> None:
    reference = torch.tensor([3.0, 4.0])
    assert norm_error(torch.tensor([3.0, 4.5]), reference) == pytest.approx(0.1)
    assert norm_error(torch.tensor([0.5]), torch.tensor([0.0])) == 0.5
    assert not norm_error(torch.tensor([float("nan")]), torch.tensor([1.0])) <= 1e9


def test_a_bench_is_found_by_the_name_of_its_op() -> None:
    assert load_bench("gemm").tolerance("bf16") > 0
    with pytest.raises(ModuleNotFoundError):
        load_bench("gem")


def test_the_worst_error_is_nan_wherever_one_is() -> None:
    assert worst(0.1, 0.3, 0.2) == 0.3
    for errors in ((0.1, math.nan), (math.nan, 0.1), (math.nan,)):
        assert math.isnan(worst(*errors))


def test_the_draws_are_made_only_for_ops_that_compare_with_them() -> None:
    def never() -> dict[str, torch.Tensor]:
        raise AssertionError

    for op in ("probe_math", "cast"):
        assert quantisation_error(load_bench(op), "bf16", {}, never) is None
    assert quantisation_error(load_bench("gemm"), "bf16", {}, never) == 0
