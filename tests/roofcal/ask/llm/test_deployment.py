"""What a workload implies, the bytes of a GPU by hand, and what is said where nothing fits."""

import pytest

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.deployment import (
    RESERVE,
    checked_memory,
    memory_of,
    with_batch,
)
from roofcal.models.errors import PredictError
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import deployment

H200 = 141e9


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


def test_a_pipeline_halves_weights_and_cache() -> None:
    one = memory_of(deployment("llama3-70b", tp=4), H200)
    two = memory_of(deployment("llama3-70b", tp=4, pp=2), H200)
    assert two.weight_bytes == pytest.approx(one.weight_bytes / 2, rel=0.01)
    assert two.kv_bytes == one.kv_bytes / 2


@pytest.mark.parametrize(
    ("name", "batch", "prompt", "says"),
    [
        ("llama3-405b", 2, 2048, "llama3-405b in bf16 does not fit 1 x nvidia-h200 at batch 2: "
         "needs 815.7 GB per GPU (weights 811.7, KV cache 2.4, activations 1.6), has 126.9 (141 "
         "less 10% in reserve); smallest --tp that fits: 8"),
        ("llama3-8b", 1000, 2048, "; largest batch that fits: 364; smallest --tp"),
        ("llama3-8b", 10**6, 10**5, "; no --tp up to 64 fits; give a smaller --batch or a larger"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_how_much_and_the_way_out(
    name: str, batch: int, prompt: int, says: str
) -> None:
    with pytest.raises(PredictError) as caught:
        deployed = deployment(name, batch=batch, prompt=prompt)
        checked_memory(deployed, Sources(spec=datasheet("nvidia-h200")), "datasheet")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("batch", "prompt", "passes"), [(1, 1, 1), (4, 2048, 1), (5, 2048, 2), (1, 8193, 2)]
)
def test_prompts_are_joined_and_cut_to_passes(batch: int, prompt: int, passes: int) -> None:
    assert deployment(batch=batch, prompt=prompt).workload.prefill_passes == passes


def test_the_largest_batch_grows_with_gpus_and_shrinks_with_context() -> None:
    by_gpus = [memory_of(deployment("llama3-70b", tp=t), H200).largest_batch for t in (2, 4, 8)]
    assert by_gpus == sorted(by_gpus)
    long = memory_of(deployment("llama3-70b", tp=2, prompt=30000), H200).largest_batch
    assert long < by_gpus[0]
