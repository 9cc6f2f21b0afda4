"""The bytes of a GPU by hand, and what is said where nothing fits or no kernel takes a shard."""

from dataclasses import replace

import pytest

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.deployment import RESERVE, LocalMatrix, checked_memory, memory_of
from roofcal.ask.llm.estimate import estimate, estimates_by_batch
from roofcal.ask.llm.operator_models import CalibratedOperators
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, deployment, model
from tests.roofcal.ask.published_run import published_calibration

MEMORY = 141e9  # bytes of an H200
H200 = Sources(calibration=published_calibration(), spec=datasheet("nvidia-h200"))
QWEN = "qwen3-30b-a3b"


def sources_of(by: str) -> Sources:
    return H200 if by == "calibrated" else replace(H200, calibration=None)


def test_the_parts_by_hand() -> None:
    memory = memory_of(deployment(batch=4, prompt=1000, output=24), MEMORY)
    assert memory.weight_bytes == pytest.approx(2 * 8.03e9, rel=0.001)
    assert memory.kv_bytes == 4 * 1024 * 32 * 2 * 8 * 128 * 2
    widest = 28672 + 14336  # gate_up and the output of the activation
    assert memory.activation_bytes == 4000 * 2 * (2 * 4096 + widest)
    parts = (memory.weight_bytes, memory.kv_bytes, memory.activation_bytes)
    assert memory.needed_bytes == sum(parts)
    assert memory.usable_bytes == pytest.approx(MEMORY * (1 - RESERVE))
    load = deployment(prompt=100, output=50)
    assert (load.mean_context, load.longest_context) == (125, 150)
    small = memory_of(deployment(batch=64, chunk=1024), MEMORY).activation_bytes
    assert memory_of(deployment(batch=64, chunk=8192), MEMORY).activation_bytes == 8 * small


def test_activations_hold_the_experts_of_a_token_and_queries_with_unpacked_keys() -> None:
    experts = memory_of(deployment(QWEN), MEMORY).activation_bytes
    assert experts == 2048 * 2 * (2 * 2048 + 8 * (1536 + 768 + 2 * 2048))
    widest = 8 * (4096 // 8 + 2048 // 8 + 2 * 7168)
    latent = memory_of(deployment("deepseek-v3", tp=8), MEMORY).activation_bytes
    assert latent == 2048 * 2 * (2 * 7168 + widest)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    by_gpus = [memory_of(deployment("llama3-70b", tp=t), MEMORY).largest_batch for t in (2, 4, 8)]
    assert by_gpus == sorted(by_gpus)
    deployed = deployment("llama3-70b", tp=2)
    batches = (by_gpus[0], by_gpus[0] + 1)
    assert [memory_of(replace(deployed, batch=b), MEMORY).fits for b in batches] == [True, False]
    one, two = (memory_of(deployment("llama3-70b", tp=4, pp=pp), MEMORY) for pp in (1, 2))
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
        checked_memory(
            deployment(name, batch=batch, prompt=prompt), sources_of("datasheet"), "datasheet"
        )
    assert says in str(caught.value)


@pytest.mark.parametrize("by", MODELS)
@pytest.mark.parametrize(("recipe", "largest"), [("fp8_axiswise", 16), ("int4", 2)])
def test_every_model_of_time_refuses_a_shard_and_names_the_largest_degree(
    by: str, recipe: str, largest: int
) -> None:
    refused = deployment(QWEN, recipe, tp=32)
    with pytest.raises(PredictError) as caught:
        estimate(refused, sources_of(by), by)
    message = str(caught.value)
    assert message.startswith(f"--tp 32 leaves 2048 x 24 (n x k) of expert_down of {QWEN}")
    assert f"largest --tp whose shards work: {largest};" in message
    assert "torch_compile" not in message
    assert recipe != "int4" or "cublaslt" not in message, "it has no int4"
    estimate(replace(refused, tensor=min(largest, 8)), sources_of(by), by)  # of links: 8 GPUs
    with pytest.raises(PredictError, match="--tp 32 leaves 2048 x 24"):
        estimates_by_batch(refused, sources_of(by), by)


def test_an_expert_is_judged_by_its_own_sides_and_not_by_all_of_them_together() -> None:
    odd, even = (LocalMatrix(n=n, k=4096) for n in (1032, 1040))  # n in sixteens, or two of them
    published = published_calibration()
    times = CalibratedOperators(calibration=published, spec=LINKED)
    assert times.product("fp8_axiswise", 64, even, 2).provider == "cublaslt"
    assert times.product("fp8_axiswise", 64, odd, 2).provider == "triton"
    libraries = {
        name: constant
        for name, constant in published.constants.items()
        if ".triton" not in name  # cublaslt and tinygemm are left, which take n in sixteens
    }
    library = CalibratedOperators(calibration=replace(published, constants=libraries), spec=LINKED)
    with pytest.raises(PredictError, match="cublaslt takes fp8_axiswise with n in multiples of 16"):
        library.product("fp8_axiswise", 64, odd, 2)
    assert library.product("int4", 8, even, 2).provider == "tinygemm"
    assert library.product("int4", 8, odd, 2).provider == "cublaslt (bf16)"


def test_a_model_that_fits_no_degree_of_a_recipe_says_so() -> None:
    qwen = model("qwen3-32b")
    odd = {**qwen.matrices, "down": qwen.matrices["down"].model_copy(update={"k": 25608})}
    changed = replace(deployment("qwen3-32b", "fp8_tensorwise"), model=qwen.model_copy(
        update={"matrices": odd}))  # fmt: skip
    with pytest.raises(PredictError, match=r"5120 x 25608 .* no --tp works; --recipe bf16 takes"):
        with_smallest_cut(changed, SOURCES, "calibrated")
