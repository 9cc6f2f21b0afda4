"""Parameters against published counts; bytes by hand; what fits, divides, or is refused."""

from dataclasses import replace

import pytest

from roofcal.ask.devices import datasheet
from roofcal.ask.llm.deployment import (
    RESERVE,
    Layers,
    LocalMatrix,
    active_parameters,
    architecture_of,
    check_parallel,
    checked_memory,
    distinct_experts,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_matrices,
    local_vocabulary,
    longest_stage,
    matrix_bytes,
    matrix_counts,
    memory_of,
    parameters,
    weight_bytes,
)
from roofcal.ask.llm.estimate import estimate, estimates_by_batch
from roofcal.ask.llm.operator_models import CalibratedOperators
from roofcal.ask.llm.sweep import with_smallest_cut
from roofcal.core.language_models import Experts, LanguageModel
from roofcal.models.errors import PredictError
from roofcal.models.registry import MODELS
from roofcal.ops.time_models import Sources
from tests.roofcal.ask.llm.deployments import LINKED, SOURCES, deployment, model
from tests.roofcal.ask.published_run import published_calibration


# published counts of all and of active parameters; the embedding of the Qwen is active there
@pytest.mark.parametrize(
    ("name", "published", "active"),
    [
        ("llama3-8b", 8.03e9, None),
        ("llama3-70b", 70.6e9, None),
        ("llama3-405b", 405.9e9, None),
        ("qwen3-32b", 32.8e9, None),
        ("qwen3-30b-a3b", 30.5e9, 3.3e9),
        ("qwen3-235b-a22b", 235e9, 22e9),
        # README_WEIGHTS.md: 671e9 without multi-token prediction, 36.6e9 active with the output
        # head and without the embedding; 37e9 in the report
        ("deepseek-v3", 671e9, 36.6e9),
    ],
)
def test_parameters_are_those_published(name: str, published: float, active: float | None) -> None:
    described = model(name)
    assert parameters(described) == pytest.approx(published, rel=0.01)
    assert weight_bytes(described, "bf16", 1, 1) == 2 * parameters(described)
    table = architecture_of(described).vocabulary * hidden_size(described)
    if active:
        counted = active_parameters(described) + (table if name.startswith("qwen") else 0)
        assert counted == pytest.approx(active, rel=0.02 if name.startswith("qwen") else 0.01)
    else:  # of a dense model all but the embedding
        assert active_parameters(described) == parameters(described) - table


def test_cache_by_hand() -> None:
    # keys and values of 8 heads of 128 in bf16
    assert kv_bytes_per_token_and_layer(model("llama3-70b"), 1) == 2 * 8 * 128 * 2
    assert kv_bytes_per_token_and_layer(model("llama3-70b"), 8) == 2 * 1 * 128 * 2
    # four heads on eight GPUs: each head is on two of them
    assert kv_bytes_per_token_and_layer(model("qwen3-235b-a22b"), 8) == 2 * 1 * 128 * 2
    # latent attention: 512 and 64 elements, on every GPU all of them
    assert kv_bytes_per_token_and_layer(model("deepseek-v3"), 8) == (512 + 64) * 2


def test_layers_by_kind_and_the_longest_stage_which_is_the_last() -> None:
    deepseek = model("deepseek-v3")
    assert longest_stage(deepseek, 1) == Layers(dense=3, expert=58)
    assert longest_stage(deepseek, 2) == Layers(dense=0, expert=31)
    assert longest_stage(model("llama3-405b"), 4) == Layers(dense=32, expert=0)
    counts = matrix_counts(deepseek, Layers(dense=1, expert=2))
    assert (counts["attention_out"], counts["dense_down"]) == (3, 1)
    assert counts["expert_down"] == 2 * (256 + 1)


def test_a_gpu_holds_its_share_of_each_matrix() -> None:
    local = local_matrices(model("llama3-70b"), 8)
    assert local["qkv"] == LocalMatrix(n=10240 // 8, k=8192)
    assert local["down"] == LocalMatrix(n=8192, k=28672 // 8)
    assert local_matrices(model("deepseek-v3"), 8)["kv_down"] == LocalMatrix(n=576, k=7168)
    # key/value heads are repeated where GPUs are more, and the vocabulary is padded to 64
    assert local_matrices(model("qwen3-30b-a3b"), 8)["qkv"].n == (32 // 8 + 2) * 128
    assert [local_vocabulary(model(), tensor) for tensor in (1, 32)] == [128256, 4032]


def changed(name: str, of_architecture: dict[str, int], **sides: int) -> LanguageModel:
    """A model with other heads, and with other k of matrices."""
    whole = model(name)
    architecture = architecture_of(whole).model_copy(update=of_architecture)
    matrices = dict(whole.matrices)
    for matrix, k in sides.items():
        matrices[matrix] = matrices[matrix].model_copy(update={"k": k})
    return whole.model_copy(update={"architecture": architecture, "matrices": matrices})


@pytest.mark.parametrize(
    ("cut", "tensor", "pipeline", "message"),
    [
        (model("llama3-70b"), 3, 1,
         "--tp 3 does not divide the 64 heads of llama3-70b; degrees that do: 1, 2"),
        (model("deepseek-v3"), 24, 1, "128 heads"),
        (changed("qwen3-32b", {}, down=25604), 8, 1, "k=25604 of down"),
        (changed("qwen3-30b-a3b", {"heads": 48, "kv_heads": 6}), 4, 1, "6 key/value heads"),
        (model().model_copy(update={"architecture": None}), 1, 1,
         r"llama3-8b.yaml has no `architecture`: layers, voc"),
        (model("llama3-8b"), 1, 33, "--pp 33: llama3-8b has 32 layers only"),
    ],
)  # fmt: skip
def test_what_a_degree_does_not_divide_is_named(
    cut: LanguageModel, tensor: int, pipeline: int, message: str
) -> None:
    with pytest.raises(PredictError, match=message):
        check_parallel(cut, tensor, pipeline)


def test_bytes_of_a_matrix() -> None:
    matrix = LocalMatrix(n=256, k=1024)
    assert matrix_bytes("bf16", matrix) == 2 * 256 * 1024
    assert matrix_bytes("fp8_tensorwise", matrix) == 256 * 1024 + 4
    assert matrix_bytes("fp8_axiswise", matrix) == 256 * 1024 + 4 * 256
    assert matrix_bytes("int4", matrix) == 256 * 1024 / 2 + 4 * 256 * 1024 / 128


EXPERTS = Experts(count=256, per_token=8)


def test_one_token_visits_its_experts_and_very_many_visit_all() -> None:
    assert distinct_experts(EXPERTS, 1) == pytest.approx(8)
    assert distinct_experts(EXPERTS, 2) == pytest.approx(8 + 8 * (1 - 8 / 256))
    assert distinct_experts(EXPERTS, 10**5) == pytest.approx(256)


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
