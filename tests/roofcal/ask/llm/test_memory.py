"""Bytes of a GPU by hand, the largest batch, and what is said where nothing fits."""

from dataclasses import replace

import pytest

from roofcal.ask.llm.memory import (
    RESERVE,
    checked_memory,
    memory_of,
    refusal,
    smallest_tensor,
)
from roofcal.models.errors import PredictError
from tests.roofcal.ask.llm.questions import question

H200 = 141e9


def test_the_parts_by_hand() -> None:
    memory = memory_of(question(batch=4, prompt=1000, output=24), H200)
    assert memory.weight_bytes == pytest.approx(2 * 8.03e9, rel=0.001)
    assert memory.kv_bytes == 4 * 1024 * 32 * 2 * 8 * 128 * 2
    widest = 28672 + 14336  # gate_up and what the activation makes of it
    assert memory.activation_bytes == 4000 * 2 * (2 * 4096 + widest)
    assert memory.needed_bytes == sum(
        (memory.weight_bytes, memory.kv_bytes, memory.activation_bytes)
    )
    assert memory.usable_bytes == pytest.approx(H200 * (1 - RESERVE))


def test_a_pass_holds_no_more_tokens_than_a_chunk() -> None:
    small = memory_of(question(batch=64, chunk=1024), H200).activation_bytes
    assert memory_of(question(batch=64, chunk=8192), H200).activation_bytes == 8 * small


def test_experts_widen_the_activations_by_those_a_token_visits() -> None:
    memory = memory_of(question("qwen3-30b-a3b"), H200)
    assert memory.activation_bytes == 2048 * 2 * (2 * 2048 + 8 * (1536 + 768 + 2 * 2048))


def test_latent_attention_holds_queries_and_unpacked_keys() -> None:
    asked = question("deepseek-v3", tp=8)
    widest = 8 * (4096 // 8 + 2048 // 8 + 2 * 7168)
    assert memory_of(asked, H200).activation_bytes == 2048 * 2 * (2 * 7168 + widest)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    asked = question("llama3-70b", tp=4)
    largest = memory_of(asked, H200).largest_batch
    fits = [
        memory_of(replace(asked, workload=replace(asked.workload, batch=batch)), H200).fits
        for batch in (largest, largest + 1)
    ]
    assert fits == [True, False]


def test_the_largest_batch_grows_with_gpus_and_shrinks_with_context() -> None:
    by_gpus = [memory_of(question("llama3-70b", tp=t), H200).largest_batch for t in (2, 4, 8)]
    assert by_gpus == sorted(by_gpus)
    long = memory_of(question("llama3-70b", tp=2, prompt=30000), H200).largest_batch
    assert long < by_gpus[0]


def test_a_pipeline_halves_weights_and_cache() -> None:
    one = memory_of(question("llama3-70b", tp=4), H200)
    two = memory_of(question("llama3-70b", tp=4, pp=2), H200)
    assert two.weight_bytes == pytest.approx(one.weight_bytes / 2, rel=0.01)
    assert two.kv_bytes == one.kv_bytes / 2


def test_what_does_not_fit_says_how_much_and_the_way_out() -> None:
    asked = question("llama3-405b", batch=2)
    with pytest.raises(PredictError) as caught:
        checked_memory(asked, H200, "nvidia-h200")
    message = str(caught.value)
    assert "llama3-405b in bf16 does not fit 1 x nvidia-h200 at batch 2: needs 81" in message
    assert "GB per GPU (weights 811.7, KV cache 2.4, activations" in message
    assert "has 126.9 (141 less 10% in reserve)" in message
    assert message.endswith("smallest --tp that fits: 8")
    assert "\n" not in message


def test_a_batch_that_is_too_large_names_the_largest() -> None:
    asked = question("llama3-8b", batch=1000)
    message = refusal(asked, memory_of(asked, H200), "d")
    largest = memory_of(asked, H200).largest_batch
    assert f"largest batch that fits: {largest}; smallest --tp" in message


def test_where_no_degree_fits_another_way_is_named() -> None:
    asked = question("llama3-8b", batch=10**6, prompt=100000)
    assert smallest_tensor(asked, H200) is None
    message = refusal(asked, memory_of(asked, H200), "d")
    assert "no --tp up to 64 fits; give a smaller --batch or a larger --pp" in message


def test_the_smallest_degree_fits_and_the_next_smaller_does_not() -> None:
    asked = question("llama3-405b", "fp8_axiswise")
    tensor = smallest_tensor(asked, H200)
    assert tensor == 4
    assert not memory_of(replace(asked, tensor=2), H200).fits


def test_what_fits_is_returned() -> None:
    memory = checked_memory(question(), H200, "d")
    assert memory.fits
    assert memory.parts.startswith("weights 16.1, KV cache 0.3, activations 0.")


def test_a_degree_that_does_not_divide_is_refused_first() -> None:
    with pytest.raises(PredictError, match="--tp 3 does not divide"):
        memory_of(question(tp=3), H200)
