"""config.json as transformers writes it: parameters against published counts, and what is refused.

The sizes are those of the files that the models were published with: ai-dynamo/aiconfigurator at
095f58a51 has most of them; those of Gemma-7B and Phi-3-mini are the defaults of their classes in
transformers 4.57.6, which say so; Qwen2-57B-A14B's stand in a test of NVIDIA's TensorRT-LLM
(QWEN2_57B_A14B_CONFIG); of DeepSeek-V2-Lite's only the count below was checked.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.ask.llm.deployment import (
    Deployment,
    active_parameters,
    kv_bytes_per_token_and_layer,
    local_matrices,
    memory_of,
    parameters,
    weight_bytes,
)
from roofcal.ask.llm.estimate import estimate
from roofcal.ask.llm.transformers_config import asked_model
from roofcal.core.language_models import LanguageModel
from roofcal.core.yaml_files import ConfigError
from tests.roofcal.ask.llm.deployments import MODELS, SOURCES, model


def sizes(layers: int, hidden: int, heads: int, kv_heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocabulary,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",  # and more keys that nothing here needs
        "rope_scaling": {"factor": 8.0},
    }


LATENT = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
LLAMA = sizes(32, 4096, 32, 8, 128256) | {"model_type": "llama", "intermediate_size": 14336}
MIXTRAL = sizes(32, 4096, 32, 8, 32000) | {
    "model_type": "mixtral", "intermediate_size": 14336, "num_local_experts": 8,
    "num_experts_per_tok": 2, "sliding_window": None,
}  # fmt: skip
QWEN = sizes(48, 2048, 32, 4, 151936) | {
    "model_type": "qwen3_moe", "head_dim": 128, "intermediate_size": 6144, "num_experts": 128,
    "moe_intermediate_size": 768, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}  # fmt: skip
DEEPSEEK = sizes(61, 7168, 128, 128, 129280) | LATENT | {
    "model_type": "deepseek_v3", "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "q_lora_rank": 1536,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
LITE = sizes(27, 2048, 16, 16, 102400) | LATENT | {
    "model_type": "deepseek_v2", "intermediate_size": 10944, "moe_intermediate_size": 1408,
    "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "q_lora_rank": None,
    "first_k_dense_replace": 1, "moe_layer_freq": 1,
}  # fmt: skip
GPT_OSS = sizes(24, 2880, 64, 8, 201088) | {
    "model_type": "gpt_oss", "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
    "num_experts_per_tok": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
# Tied, and a class of transformers that is so by default writes no key.
GEMMA = {k: v for k, v in sizes(28, 3072, 16, 16, 256000).items() if "tie_" not in k} | {
    "model_type": "gemma", "head_dim": 256, "intermediate_size": 24576,
}  # fmt: skip
VISION: dict[str, Any] = {
    "model_type": "qwen3_vl", "tie_word_embeddings": True, "vision_config": {"depth": 24},
    "text_config": {k: v for k, v in sizes(36, 2560, 32, 8, 151936).items() if "tie_" not in k}
    | {"model_type": "qwen3_vl_text", "head_dim": 128, "intermediate_size": 9728},
}  # fmt: skip
QWEN_2 = sizes(28, 3584, 28, 4, 151936) | {
    "model_type": "qwen2_moe", "intermediate_size": 18944, "num_experts": 64,
    "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480,
    "num_experts_per_tok": 8,
}  # fmt: skip


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(content: Any, name: str = "config.json") -> LanguageModel:
        path = tmp_path / "some-model" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent="\t"))
        return asked_model(MODELS, str(path))

    return read


@pytest.mark.parametrize(
    ("content", "published", "active"),
    [
        (sizes(32, 3072, 32, 32, 32064) | {"model_type": "phi3", "intermediate_size": 8192},
         3.82e9, None),  # arXiv 2404.14219: 3.8 billion; 3.82 by its files
        (sizes(28, 1024, 16, 8, 151936) | {"model_type": "qwen3", "head_dim": 128,
         "intermediate_size": 3072, "tie_word_embeddings": True}, 0.596e9, None),  # its files
        (GEMMA, 8.54e9, None),  # arXiv 2403.08295, table 2: 0.787e9 + 7.751e9
        (VISION, 4.02e9, None),  # as Qwen3-4B, whose card says 4.0e9
        (MIXTRAL, 46.7e9, 12.9e9),  # mistral.ai/news/mixtral-of-experts
        (QWEN_2, 57.4e9, None),  # card of Qwen2-57B-A14B: 57.41e9
        (LITE, 15.7e9, None),  # arXiv 2405.04434, appendix B: 15.7e9, 2.4e9 of them active
        (GPT_OSS, 20.9e9, 3.61e9),  # arXiv 2508.10925, table 1: 20.91e9, active 3.61e9
    ],
)  # fmt: skip
def test_parameters_are_those_published(
    content: dict[str, Any], published: float, active: float | None, read: Any
) -> None:
    described = read(content)
    assert described.model == "some-model"
    assert parameters(described) == pytest.approx(published, rel=0.01)
    if active:
        assert active_parameters(described) == pytest.approx(active, rel=0.015)


def without(content: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key not in keys}


@pytest.mark.parametrize(
    ("content", "kv_heads", "head_dim"),
    [
        (without(LLAMA, "num_key_value_heads"), 32, 128),
        (without(LLAMA, "num_key_value_heads") | {"model_type": "mistral"}, 8, 128),
        (without(LLAMA, "num_key_value_heads") | {"model_type": "qwen2"}, 32, 128),
        (LLAMA | {"num_key_value_heads": None, "model_type": "mistral"}, 32, 128),
        (without(QWEN, "num_key_value_heads", "head_dim"), 4, 64),
        (without(QWEN_2, "num_key_value_heads") | {"num_attention_heads": 32}, 16, 112),
        (without(GPT_OSS, "num_key_value_heads", "head_dim"), 8, 64),
        (without(GEMMA, "num_key_value_heads", "head_dim"), 16, 256),
        (without(GEMMA, "num_key_value_heads", "head_dim") | {"model_type": "gemma2"}, 4, 256),
        (VISION | {"text_config": without(VISION["text_config"], "head_dim")}, 8, 128),
        (VISION | {"text_config": {"model_type": "gemma3_text", "hidden_size": 2560}}, 4, 256),
    ],
)
def test_what_a_file_leaves_out_is_the_default_of_its_class(
    content: dict[str, Any], kv_heads: int, head_dim: int, read: Any
) -> None:
    """By the configuration classes of transformers 4.57.6 and 5.24.0."""
    architecture = read(content).architecture
    assert (architecture.kv_heads, architecture.head_dim) == (kv_heads, head_dim)


def test_a_text_config_that_leaves_sizes_out_has_those_of_its_class(read: Any) -> None:
    described = read({"text_config": {"model_type": "gemma3_text"}})
    architecture = described.architecture
    assert (architecture.layers, architecture.heads, architecture.vocabulary) == (26, 8, 262208)
    assert (described.matrices["down"].n, described.matrices["down"].k) == (2304, 9216)
    assert architecture.tied_embeddings
    keys = ("n_shared_experts", "first_k_dense_replace")
    assert read(without(DEEPSEEK, *keys)).architecture == read(DEEPSEEK).architecture


@pytest.mark.parametrize(
    ("content", "name"), [(LLAMA, "llama3-8b"), (QWEN, "qwen3-30b-a3b"), (DEEPSEEK, "deepseek-v3")]
)
def test_a_file_says_what_its_description_in_the_configuration_says(
    content: dict[str, Any], name: str, read: Any
) -> None:
    described = read(content)
    assert described.matrices == model(name).matrices
    assert described.architecture == model(name).architecture
    if name.startswith("qwen"):  # dense layers before the experts may be listed
        listed = read(content | {"mlp_only_layers": [0, 1]})
        assert listed.architecture.experts.dense_layers == 2
        assert listed.matrices["dense_down"].k == 6144


def test_queries_need_no_compression(read: Any) -> None:
    lite = read(LITE)
    assert list(lite.matrices)[:4] == ["q", "kv_down", "kv_up", "attention_out"]
    assert (lite.matrices["q"].n, lite.matrices["q"].k) == (16 * (128 + 64), 2048)
    assert local_matrices(lite, 4)["q"].n == 4 * (128 + 64)
    assert kv_bytes_per_token_and_layer(lite, 4) == 2 * (512 + 64)
    assert weight_bytes(lite, "bf16", 1, 1) == 2 * parameters(lite)
    deployed = Deployment(model=lite, recipe="fp8_tensorwise", tensor=2)
    widest = 6 * (2 * 1408 // 2 + 1408 // 2 + 2 * 2048)
    assert memory_of(deployed, 1e11).activation_bytes == 2 * 2048 * (2 * 2048 + widest)
    calls = {
        operator.name: operator.calls for operator in estimate(deployed, SOURCES).decode.operators
    }
    assert calls["q"] == calls["kv_down"] == calls["kv_up"] == 27
    assert not {"qkv", "q_down", "q_up"} & set(calls)
    # of the stream, of the latents, of heads; of the dense, expert and shared networks two each
    assert calls["cast"] == 27 * 3 + 2 * (1 + 26 + 26 * 2)


def test_what_is_not_timed_is_said(read: Any) -> None:
    assert read(LLAMA).left_out == ()
    assert read(GPT_OSS).left_out == (
        "sliding windows of 128 tokens in 12 of 24 layers: attention and cache are those of the "
        "whole context",
        "the file's own format of weights, mxfp4: --recipe says which is timed",
    )
    assert read(DEEPSEEK).left_out[0] == "layers of multi-token prediction: 1"
    assert read(VISION).left_out == ("what is no language model: vision_config",)
    sliding = {"model_type": "mistral", "sliding_window": 4096}
    assert (
        read(LLAMA | sliding).left_out[0].startswith("sliding windows of 4096 tokens in up to 32")
    )
    assert read(LLAMA | sliding | {"use_sliding_window": False}).left_out == ()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[1]", "must be a mapping of keys to values, is a list"),
        ({}, "model_type: missing, and required in a config.json of transformers"),
        ({"model_type": "bert", "hidden_size": 768}, "model_type: 'bert' is no family of decoders"),
        ({"model_type": "mamba2", "time_step_limit": [0.0, float("inf")]}, "model_type: 'mamba2'"),
        ({"text_config": {"model_type": "llama4_text"}}, "text_config.model_type: 'llama4_text' i"),
        ({"text_config": {"model_type": "llama"}}, "text_config.hidden_size: missing, and require"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size: Input should be a valid integer (got '409"),
        (LLAMA | {"intermediate_size": None}, "intermediate_size: missing, and required of a llam"),
        (LLAMA | {"hidden_size": 4100}, "head_dim: missing, and hidden_size 4100 is no multiple o"),
        (LLAMA | {"model_type": "mimo"}, "head_dim: missing, and required of a mimo"),
        (LLAMA | {"num_key_value_heads": 5}, "num_attention_heads: 32 is no multiple of num_key_v"),
        (LLAMA | {"layer_types": ["full_attention", "linear_attention"]}, "layer_types: 1 of 2 la"),
        (MIXTRAL | {"num_local_experts": None}, "num_local_experts: missing, and required of a mi"),
        (MIXTRAL | {"num_experts_per_tok": 9}, "num_experts_per_tok: 9 of 8 experts"),
        (QWEN | {"decoder_sparse_step": 2}, "decoder_sparse_step: is 2, and llm knows experts in"),
        (QWEN | {"mlp_only_layers": [5]}, "mlp_only_layers: is [5], and llm knows dense layers be"),
        (QWEN_2 | {"shared_expert_intermediate_size": 20481}, "20481 is no multiple of moe_interm"),
        (DEEPSEEK | {"moe_layer_freq": [0, 1]}, "moe_layer_freq: is [0, 1], and llm knows experts"),
        (DEEPSEEK | {"first_k_dense_replace": 61}, "first_k_dense_replace: 61 leaves no layer of "),
        (without(DEEPSEEK, "q_lora_rank"), "q_lora_rank: missing, and req"),
    ],
)  # fmt: skip
def test_what_cannot_be_described_is_one_message_with_file_and_key(
    content: Any, says: str, read: Any
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(content)
    message = str(caught.value)
    assert "some-model/config.json: " in message.splitlines()[0]
    assert says in message
    if "text_config" not in str(content):
        assert len(message.splitlines()) == 1


def test_a_folder_stands_for_its_file_and_a_renamed_file_is_read(read: Any, tmp_path: Path) -> None:
    described = read(LLAMA)
    assert asked_model(MODELS, str(tmp_path / "some-model")) == described
    renamed = read(json.dumps(LLAMA), "llama.yaml")
    assert (renamed.model, renamed.matrices) == ("llama", described.matrices)
    with pytest.raises(ConfigError, match=r"x\.yaml: cannot be read"):
        asked_model(MODELS, "x.yaml")
