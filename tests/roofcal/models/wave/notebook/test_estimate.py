"""The figures that the notebook's first cell prints, and the same without its mistakes."""

import pytest

from roofcal.models.wave.notebook.device import load_notebook_device
from roofcal.models.wave.notebook.estimate import corrected, printed

NOTEBOOK = load_notebook_device()


def test_the_first_cell_to_the_printed_digit() -> None:
    estimate = printed(NOTEBOOK)
    assert f"{estimate.memory_bytes_per_s / 1e9:.2f}" == "4341.76"
    assert f"{estimate.flops_per_s / 1e12:.3f}" == "933.888"
    assert estimate.kv_cache == 5.078125
    assert estimate.batch == 56
    assert f"{estimate.token_size_s * 1e3:.1f}" == "3.7"
    assert f"{estimate.token_link_s * 1e3:.1f}" == "1.9"
    assert f"{estimate.token_flops_s * 1e3:.4f}" == "1.9709"
    assert f"{estimate.prompt_s * 1e3:.2f}" == "47.62"
    assert f"{estimate.prompt_s * 1e3:.1f}" == "47.6"
    assert f"{estimate.prompt_link_s * 1e3:.1f}" == "34.2"


def test_corrected_the_cache_is_in_gigabytes_and_bounds_the_batch() -> None:
    estimate = corrected(NOTEBOOK)
    cache = 2 * 2 * 8192 * 80 * 2080
    assert estimate.kv_cache == pytest.approx(cache / 1e9)
    assert estimate.batch == (192 - 130) * 10**9 // cache == 11


def test_corrected_the_operations_of_a_token_are_those_of_its_weights() -> None:
    estimate = corrected(NOTEBOOK)
    assert estimate.token_flops_s == pytest.approx(estimate.token_size_s, rel=0.01)
    weights = 80 * (4 * 8192**2 + 3 * 8192 * 22016)
    assert estimate.token_flops_s == pytest.approx(2 * weights / (8 * 4341.76e9))
    prompt = 2 * 2048 * weights + 80 * 2 * 2048**2 * 8192
    assert estimate.prompt_s == pytest.approx(prompt / (8 * 933.888e12 * 0.85))
    assert estimate.prompt_link_s < printed(NOTEBOOK).prompt_link_s
