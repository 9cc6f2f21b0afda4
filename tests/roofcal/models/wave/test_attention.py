"""Flash attention by hand, and what must hold of every size."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofcal.models.errors import PredictError
from roofcal.models.wave.attention import (
    Attention,
    flash_attention,
    kv_tile,
    moved_bytes,
    softmax_clocks,
)
from tests.roofcal.models.runs import WAVE

PROMPT = Attention(
    heads=100, kv_heads=100, head_dim=128, query_tokens=128, kv_tokens=2048, causal=False
)
ROWS_128 = replace(WAVE, attention_rows=(128,))


def test_two_tiles_of_k_fit_lds() -> None:
    assert kv_tile(WAVE, PROMPT) == 256  # 2 tiles x 256 rows x 128 x 2 bytes = 128 KiB
    assert kv_tile(replace(WAVE, lds_bytes=100_000), PROMPT) == 128


def products() -> float:
    """Clocks of QK and PV of one step of 128 x 256."""
    return 2 * 2 * 128 * 256 * 128 / (4000 * 0.5)


def test_one_workgroup_a_unit_hides_nothing_and_two_hide_the_softmax_unless_it_is_slow() -> None:
    time = flash_attention(ROWS_128, PROMPT)
    clocks = 8 * (products() + softmax_clocks(WAVE, 128, 256))
    assert time.total_s == pytest.approx(1e-6 + clocks / 0.5e9)
    assert time.bound_by == "math"
    two = replace(PROMPT, sequences=2)
    time = flash_attention(ROWS_128, two)
    assert time.total_s == pytest.approx(1e-6 + 8 * 2 * products() / 0.5e9)
    slow = replace(ROWS_128, softmax_per_clock={**WAVE.softmax_per_clock, "exponential": 1.0})
    time = flash_attention(slow, two)
    assert time.bound_by == "softmax"
    assert time.total_s == pytest.approx(1e-6 + 8 * 2 * softmax_clocks(slow, 128, 256) / 0.5e9)


def test_decoding_reads_the_cache() -> None:
    step = Attention(
        heads=64, kv_heads=8, head_dim=128, query_tokens=1, kv_tokens=8192, sequences=64
    )
    time = flash_attention(replace(WAVE, attention_rows=(16,)), step)
    assert moved_bytes(step) == 64 * (2 * 8 * 8192 + 2 * 64) * 128 * 2
    assert time.bound_by == "dram"
    assert time.total_s == pytest.approx(1e-6 + moved_bytes(step) / 2e12)
    latent = replace(step, shared_kv=True)
    assert moved_bytes(latent) == 64 * (8 * 8192 + 2 * 64) * 128 * 2


def test_shared_heads_move_less_and_never_take_longer() -> None:
    every = replace(PROMPT, heads=128, kv_heads=128)
    shared = replace(every, kv_heads=8)
    assert moved_bytes(shared) < moved_bytes(every)
    assert flash_attention(WAVE, shared).total_s <= flash_attention(WAVE, every).total_s


@given(
    heads=st.integers(1, 128),
    tokens=st.integers(1, 8192),
    before=st.integers(0, 8192),
    more=st.integers(1, 4096),
)
def test_a_longer_context_never_takes_less(heads: int, tokens: int, before: int, more: int) -> None:
    shorter = Attention(
        heads=heads, kv_heads=heads, head_dim=128, query_tokens=tokens, kv_tokens=tokens + before
    )
    longer = replace(shorter, kv_tokens=tokens + before + more)
    assert flash_attention(WAVE, longer).total_s >= flash_attention(WAVE, shorter).total_s


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"heads": 0}, "attention: heads=0"),
        ({"kv_heads": 3}, "100 heads do not divide among 3 kv_heads"),
        ({"query_tokens": 4096}, "query_tokens=4096 are more than kv_tokens=2048"),
        ({"head_dim": 1 << 14}, "two tiles of K of 16 rows do not fit"),
    ],
)
def test_mistakes_are_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(PredictError, match=message):
        flash_attention(WAVE, replace(PROMPT, **changed))
