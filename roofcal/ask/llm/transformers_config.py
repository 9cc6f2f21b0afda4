"""A language model from the config.json that Hugging Face's transformers writes.

Families are listed by `model_type`: others may have layers that `llm` does not know. What a listed
family has beyond the sizes of a LanguageModel is said in `left_out`, or refused where the sizes
would be wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, StrictBool

from roofcal.core.language_models import Architecture, LanguageModel, load_model
from roofcal.core.yaml_files import ConfigError, Natural, Whole, read_yaml, validated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """How a `model_type` names what differs between families.

    experts    the key that counts the routed experts; None for dense models
    width      the key of the width of one expert
    latent     attention over compressed keys and values
    is_tied    tie_word_embeddings where the file leaves it out: the default of its class
    defaults   what other keys are where the file leaves them out: the defaults of its class that
               are not those of _Decoder, as in transformers 4.57.6 and 5.24.0
    needed     keys that the file must have, because its class is not in transformers
    left_out   what a layer has and `llm` does not time
    """

    experts: str | None = None
    width: str = "moe_intermediate_size"
    latent: bool = False
    is_tied: bool = False
    defaults: Mapping[str, int] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    left_out: str | None = None


def _dense(kv_heads: int | None = None, head_dim: int | None = None) -> _Family:
    """A dense family; None: of a class that has as many heads of keys, or hidden_size / heads."""
    defaults = {"num_key_value_heads": kv_heads, "head_dim": head_dim}
    return _Family(defaults={key: size for key, size in defaults.items() if size})


_GEMMA_DIM: Final = {"head_dim": 256}
_GEMMA: Final = _Family(
    is_tied=True,
    defaults={"num_key_value_heads": 4} | _GEMMA_DIM,
    left_out="two of the four norms of a layer",
)
_GEMMA_3: Final = replace(
    _GEMMA,  # its files with a text_config leave out what is the default
    defaults={
        **_GEMMA.defaults, "num_attention_heads": 8, "vocab_size": 262208, "hidden_size": 2304,
        "intermediate_size": 9216, "num_hidden_layers": 26,
    },
)  # fmt: skip
_EXPERTS: Final = _Family(experts="num_local_experts", width="intermediate_size")
_QWEN_EXPERTS: Final = _Family(experts="num_experts")
_DEEPSEEK: Final = _Family(experts="n_routed_experts", latent=True)
_FAMILIES: Final[dict[str, _Family]] = {
    **dict.fromkeys(("llama", "phi3"), _dense()),
    "mistral": _dense(8),
    "mimo": _Family(needed=("num_key_value_heads", "head_dim")),
    "qwen2": _dense(32),
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _dense(8)),
    **dict.fromkeys(("qwen3", "qwen3_vl_text"), _dense(32, 128)),
    "gemma": _Family(is_tied=True, defaults={"num_key_value_heads": 16} | _GEMMA_DIM),
    "gemma2": _GEMMA,
    "gemma3_text": _GEMMA_3,
    "mixtral": replace(_EXPERTS, defaults={"num_key_value_heads": 8}),
    "gpt_oss": replace(_EXPERTS, defaults={"num_key_value_heads": 8, "head_dim": 64}),
    "qwen2_moe": replace(
        _QWEN_EXPERTS, defaults={"num_key_value_heads": 16, "shared_expert_intermediate_size": 5632}
    ),
    "qwen3_moe": replace(_QWEN_EXPERTS, defaults={"num_key_value_heads": 4}),
    "qwen3_vl_moe_text": replace(_QWEN_EXPERTS, defaults={"num_key_value_heads": 16}),
    "deepseek_v2": replace(_DEEPSEEK, defaults={"n_shared_experts": 2}),
    "deepseek_v3": replace(_DEEPSEEK, defaults={"n_shared_experts": 1, "first_k_dense_replace": 3}),
    "kimi_k2": replace(_DEEPSEEK, needed=("n_shared_experts",)),
    "glm4_moe": _Family(
        experts="n_routed_experts",
        defaults={"num_key_value_heads": 8, "n_shared_experts": 1, "first_k_dense_replace": 1},
    ),
}
_ATTENTION_KINDS: Final = ("full_attention", "sliding_attention")


class _Decoder(BaseModel):
    """The keys that are read, under the names that transformers gives them; others are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())

    model_type: str
    hidden_size: Whole
    num_hidden_layers: Whole
    num_attention_heads: Whole
    vocab_size: Whole
    intermediate_size: Whole | None = None
    num_key_value_heads: Whole | None = None
    head_dim: Whole | None = None
    tie_word_embeddings: StrictBool | None = None
    q_lora_rank: Whole | None = None
    kv_lora_rank: Whole | None = None
    qk_nope_head_dim: Whole | None = None
    qk_rope_head_dim: Whole | None = None
    v_head_dim: Whole | None = None
    num_experts: Whole | None = None
    num_local_experts: Whole | None = None
    n_routed_experts: Whole | None = None
    num_experts_per_tok: Whole | None = None
    moe_intermediate_size: Whole | None = None
    shared_expert_intermediate_size: Natural | None = None
    n_shared_experts: Natural | None = None
    first_k_dense_replace: Natural = 0
    mlp_only_layers: list[int] | None = None
    decoder_sparse_step: Whole = 1
    moe_layer_freq: Any = 1  # some families write a list of the layers
    layer_types: list[str] | None = None
    sliding_window: Whole | None = None
    use_sliding_window: StrictBool | None = None
    num_nextn_predict_layers: Natural | None = None
    quantization_config: dict[str, Any] | None = None


def asked_model(folder: Path, name: str) -> LanguageModel:
    """The language model that a person names: as load_model, or the path of a config.json.

    A path may be that of the folder that holds it, and the file may have another name. Raises
    ConfigError as load_model does, and for a model whose layers `llm` does not know.
    """
    path, errors = Path(name), list[str]()
    if (folder / f"{name}.yaml").is_file():
        return load_model(folder, name)
    if path.is_dir():
        path /= "config.json"
    if path.suffix not in (".json", ".yaml"):
        return load_model(folder, name)
    content = read_yaml(path, errors)
    if path.suffix == ".yaml" and "model_type" not in content:
        return load_model(folder, name)
    described = {} if errors else _described_model(content, path, errors)
    model = None if errors else validated(LanguageModel, described, path, errors)
    if model is None:
        raise ConfigError("\n".join(errors))
    return model


def _described_model(content: dict[str, Any], path: Path, errors: list[str]) -> dict[str, Any]:
    """The content of config/models/<model>.yaml that says what a config.json says.

    {} after adding to `errors` what is wrong with the file, or that its family is not known.
    """
    text, where = content, ""
    if isinstance(content.get("text_config"), dict):
        text, where = content["text_config"], "text_config."
    family = _FAMILIES.get(str(text.get("model_type")))
    if family is None:
        way_out = "describe the model in a file as config/models/llama3-8b.yaml"
        what = f"missing, and required in a config.json of transformers; or {way_out}"
        if (name := text.get("model_type")) is not None:
            known = ", ".join(sorted(_FAMILIES))
            what = f"'{name}' is no family of decoders that is read here ({known}); {way_out}"
        errors.append(f"{path}: {where}model_type: {what}")
        return {}
    text, wrong = {**family.defaults, **text}, list[str]()
    decoder = validated(_Decoder, text, path, wrong)
    wrong = [line.removeprefix(f"{path}: ") for line in wrong]
    wrong += [] if decoder is None else _problems(decoder, family, text)
    errors += (f"{path}: {where}{line}" for line in wrong)
    if decoder is None or wrong:
        return {}
    return _described(decoder, family, content, path, errors)


def _problems(decoder: _Decoder, family: _Family, text: dict[str, Any]) -> Iterator[str]:
    """Keys that the family needs and the file lacks, and layers that no operator here times."""
    needed = ["intermediate_size", *family.needed]
    if family.latent:
        needed += ["kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"]
        if "q_lora_rank" not in text:  # null says that queries are not compressed
            yield f"q_lora_rank: missing, and required of a {decoder.model_type}; null for none"
    elif decoder.head_dim is None and decoder.hidden_size % decoder.num_attention_heads:
        yield (
            f"head_dim: missing, and hidden_size {decoder.hidden_size} is no multiple of "
            f"num_attention_heads {decoder.num_attention_heads}"
        )
    if decoder.num_attention_heads % (decoder.num_key_value_heads or 1):
        yield (
            f"num_attention_heads: {decoder.num_attention_heads} is no multiple of "
            f"num_key_value_heads {decoder.num_key_value_heads}"
        )
    if family.experts:
        needed += [family.experts, "num_experts_per_tok", family.width]
    for key in dict.fromkeys(needed):
        if getattr(decoder, key) is None:
            yield f"{key}: missing, and required of a {decoder.model_type}"
    kinds = decoder.layer_types or []
    for kind in dict.fromkeys(kinds):
        if kind not in _ATTENTION_KINDS:
            yield (
                f"layer_types: {kinds.count(kind)} of {len(kinds)} layers are '{kind}', and llm "
                f"times {' and '.join(_ATTENTION_KINDS)} alone"
            )
    if family.experts:
        yield from _expert_problems(decoder, family.experts)


def _expert_problems(decoder: _Decoder, counted_by: str) -> Iterator[str]:
    """Experts that do not fill every layer behind the dense ones."""
    count, per_token = getattr(decoder, counted_by), decoder.num_experts_per_tok
    if count is not None and (per_token or 0) > count:
        yield f"num_experts_per_tok: {per_token} of {count} experts"
    if decoder.first_k_dense_replace >= decoder.num_hidden_layers:
        yield (
            f"first_k_dense_replace: {decoder.first_k_dense_replace} leaves no layer of "
            f"{decoder.num_hidden_layers} for experts"
        )
    for key in ("decoder_sparse_step", "moe_layer_freq"):
        if getattr(decoder, key) != 1:
            yield f"{key}: is {getattr(decoder, key)}, and llm knows experts in every layer alone"
    dense = decoder.mlp_only_layers or []
    if sorted(dense) != list(range(len(dense))):
        yield f"mlp_only_layers: is {dense}, and llm knows dense layers before all others alone"
    shared, width = decoder.shared_expert_intermediate_size, decoder.moe_intermediate_size
    if shared and width and shared % width:
        yield (
            f"shared_expert_intermediate_size: {shared} is no multiple of moe_intermediate_size "
            f"{width}"
        )


def _described(
    decoder: _Decoder, family: _Family, content: dict[str, Any], path: Path, errors: list[str]
) -> dict[str, Any]:
    """As _described_model, of keys without problems."""
    tied = decoder.tie_word_embeddings
    if tied is None:  # a file of several parts may say it of the whole
        tied = content.get("tie_word_embeddings", family.is_tied)
    heads, head_dim = decoder.num_attention_heads, decoder.head_dim
    architecture: dict[str, Any] = {
        "layers": decoder.num_hidden_layers,
        "vocabulary": decoder.vocab_size,
        "heads": heads,
        "kv_heads": decoder.num_key_value_heads or heads,
        "head_dim": head_dim or decoder.hidden_size // heads,
        "tied_embeddings": tied,
    }
    if family.latent:
        architecture |= {
            "kv_heads": heads,
            "head_dim": decoder.qk_nope_head_dim,
            "latent": {
                "latent": decoder.kv_lora_rank,
                "rope": decoder.qk_rope_head_dim,
                "value": decoder.v_head_dim,
                "compressed_queries": decoder.q_lora_rank is not None,
            },
        }
    widths = {"": decoder.intermediate_size, "dense_": decoder.intermediate_size}
    if family.experts:
        widths["expert_"] = width = getattr(decoder, family.width)
        architecture["experts"] = {
            "count": getattr(decoder, family.experts),
            "per_token": decoder.num_experts_per_tok,
            "shared": decoder.n_shared_experts
            or (decoder.shared_expert_intermediate_size or 0) // width,
            "dense_layers": len(decoder.mlp_only_layers or []) or decoder.first_k_dense_replace,
        }
    described = validated(Architecture, architecture, path, errors)
    if described is None:
        return {}
    rank = decoder.q_lora_rank
    sizes = {"q_down.n": rank, "q_up.k": rank, "kv_up.k": decoder.kv_lora_rank}
    sizes |= described.implied_sizes
    for kind, width in widths.items():
        sizes |= {f"{kind}gate_up.n": 2 * (width or 0), f"{kind}down.k": width}
    matrices = {}
    for name in described.matrix_names:
        sides = {axis: sizes.get(f"{name}.{axis}", decoder.hidden_size) for axis in "nk"}
        is_input = name == "attention_out" or name.endswith("down")
        shard = "none" if name in ("q_down", "kv_down") else "k" if is_input else "n"
        matrices[name] = sides | {"shard": shard}
    return {
        "model": path.resolve().parent.name if path.stem == "config" else path.stem,
        "source": f"{path}, as transformers writes it",
        "matrices": matrices,
        "architecture": architecture,
        "left_out": list(_left_out(decoder, family, content)),
    }


def _left_out(decoder: _Decoder, family: _Family, content: dict[str, Any]) -> Iterator[str]:
    """What the file states and the description does not hold, one line each."""
    layers = decoder.num_hidden_layers
    sliding = layers
    if decoder.layer_types:
        sliding = decoder.layer_types.count("sliding_attention")
    if decoder.sliding_window and sliding and decoder.use_sliding_window is not False:
        most = "" if decoder.layer_types else "up to "
        yield (
            f"sliding windows of {decoder.sliding_window} tokens in {most}{sliding} of {layers} "
            "layers: attention and cache are those of the whole context"
        )
    if decoder.num_nextn_predict_layers:
        yield f"layers of multi-token prediction: {decoder.num_nextn_predict_layers}"
    if family.left_out:
        yield family.left_out
    if decoder.quantization_config:
        method = decoder.quantization_config.get("quant_method", "some other format")
        yield f"the file's own format of weights, {method}: --recipe says which is timed"
    parts = [key for key in ("vision_config", "audio_config") if content.get(key)]
    if parts:
        yield f"what is no language model: {', '.join(parts)}"
