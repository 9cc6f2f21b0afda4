"""Parameters against published counts, bytes by hand, degrees that do not divide."""

import pytest

from roofcal.ask.llm.deployment import (
    Layers,
    LocalMatrix,
    active_parameters,
    architecture_of,
    check_parallel,
    distinct_experts,
    hidden_size,
    kv_bytes_per_token_and_layer,
    local_matrices,
    local_vocabulary,
    longest_stage,
    matrix_bytes,
    matrix_counts,
    parameters,
    weight_bytes,
)
from roofcal.core.language_models import Experts, LanguageModel
from roofcal.models.errors import PredictError
from tests.roofcal.ask.llm.deployments import model


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
