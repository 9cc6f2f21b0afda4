"""What a workload implies, the bytes of a GPU by hand, and what is said where nothing fits."""

from dataclasses import replace

import pytest

from roofcal.ask.llm.deployment import (
    RESERVE,
    Deployment,
    checked_memory,
    memory_of,
    smallest_tensor,
    with_batch,
)
from roofcal.models.errors import PredictError
from tests.roofcal.ask.llm.deployments import deployment

H200 = 141e9
DEGREES = (1, 2, 4, 8, 16, 32)


def refusal(deployed: Deployment) -> str:
    with pytest.raises(PredictError) as caught:
        checked_memory(deployed, H200, "nvidia-h200", DEGREES)
    return str(caught.value)


def test_the_parts_by_hand() -> None:
    memory = memory_of(deployment(batch=4, prompt=1000, output=24), H200)
    assert memory.weight_bytes == pytest.approx(2 * 8.03e9, rel=0.001)
    assert memory.kv_bytes == 4 * 1024 * 32 * 2 * 8 * 128 * 2
    widest = 28672 + 14336  # gate_up and the output of the activation
    assert memory.activation_bytes == 4000 * 2 * (2 * 4096 + widest)
    assert memory.needed_bytes == sum(
        (memory.weight_bytes, memory.kv_bytes, memory.activation_bytes)
    )
    assert memory.usable_bytes == pytest.approx(H200 * (1 - RESERVE))


def test_a_pass_holds_no_more_tokens_than_a_chunk() -> None:
    small = memory_of(deployment(batch=64, chunk=1024), H200).activation_bytes
    assert memory_of(deployment(batch=64, chunk=8192), H200).activation_bytes == 8 * small


def test_experts_widen_the_activations_by_those_a_token_visits() -> None:
    memory = memory_of(deployment("qwen3-30b-a3b"), H200)
    assert memory.activation_bytes == 2048 * 2 * (2 * 2048 + 8 * (1536 + 768 + 2 * 2048))


def test_latent_attention_holds_queries_and_unpacked_keys() -> None:
    deployed = deployment("deepseek-v3", tp=8)
    widest = 8 * (4096 // 8 + 2048 // 8 + 2 * 7168)
    assert memory_of(deployed, H200).activation_bytes == 2048 * 2 * (2 * 7168 + widest)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    deployed = deployment("llama3-70b", tp=4)
    largest = memory_of(deployed, H200).largest_batch
    fits = [memory_of(with_batch(deployed, batch), H200).fits for batch in (largest, largest + 1)]
    assert fits == [True, False]


def test_the_largest_batch_grows_with_gpus_and_shrinks_with_context() -> None:
    by_gpus = [memory_of(deployment("llama3-70b", tp=t), H200).largest_batch for t in (2, 4, 8)]
    assert by_gpus == sorted(by_gpus)
    long = memory_of(deployment("llama3-70b", tp=2, prompt=30000), H200).largest_batch
    assert long < by_gpus[0]


def test_a_pipeline_halves_weights_and_cache() -> None:
    one = memory_of(deployment("llama3-70b", tp=4), H200)
    two = memory_of(deployment("llama3-70b", tp=4, pp=2), H200)
    assert two.weight_bytes == pytest.approx(one.weight_bytes / 2, rel=0.01)
    assert two.kv_bytes == one.kv_bytes / 2


def test_what_does_not_fit_says_how_much_and_the_way_out() -> None:
    deployed = deployment("llama3-405b", batch=2)
    message = refusal(deployed)
    assert "llama3-405b in bf16 does not fit 1 x nvidia-h200 at batch 2: needs 81" in message
    assert "GB per GPU (weights 811.7, KV cache 2.4, activations" in message
    assert "has 126.9 (141 less 10% in reserve)" in message
    assert message.endswith("smallest --tp that fits: 8")
    assert "\n" not in message


def test_a_batch_that_is_too_large_names_the_largest() -> None:
    deployed = deployment("llama3-8b", batch=1000)
    message = refusal(deployed)
    largest = memory_of(deployed, H200).largest_batch
    assert f"largest batch that fits: {largest}; smallest --tp" in message


def test_where_no_degree_fits_another_way_is_named() -> None:
    deployed = deployment("llama3-8b", batch=10**6, prompt=100000)
    assert smallest_tensor(deployed, H200, DEGREES) is None
    message = refusal(deployed)
    assert "no --tp up to 64 fits; give a smaller --batch or a larger --pp" in message


def test_the_smallest_degree_fits_and_the_next_smaller_does_not() -> None:
    deployed = deployment("llama3-405b", "fp8_axiswise")
    tensor = smallest_tensor(deployed, H200, DEGREES)
    assert tensor == 4
    assert not memory_of(replace(deployed, tensor=2), H200).fits


def test_what_fits_is_returned() -> None:
    memory = checked_memory(deployment(), H200, "d", DEGREES)
    assert memory.fits
    assert memory.parts.startswith("weights 16.1, KV cache 0.3, activations 0.")


def test_a_degree_that_does_not_divide_is_refused_first() -> None:
    with pytest.raises(PredictError, match="--tp 3 does not divide"):
        memory_of(deployment(tp=3), H200)


@pytest.mark.parametrize(
    ("batch", "prompt", "passes"), [(1, 1, 1), (4, 2048, 1), (5, 2048, 2), (1, 8193, 2)]
)
def test_prompts_are_joined_and_cut_to_passes(batch: int, prompt: int, passes: int) -> None:
    assert deployment(batch=batch, prompt=prompt).workload.prefill_passes == passes


def test_the_context_grows_with_the_output() -> None:
    load = deployment(prompt=100, output=50).workload
    assert (load.mean_context, load.longest_context) == (125, 150)


def test_gpus_are_the_product_of_the_degrees() -> None:
    assert deployment(tp=4, pp=2).gpus == 8
