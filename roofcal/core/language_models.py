"""config/models/*.yaml: the matrices of a language model's layers, and its architecture."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from roofcal.core.names import did_you_mean_or_all
from roofcal.core.yaml_files import ConfigError, Natural, Strict, Whole, read_yaml, validated


class Matrix(Strict):
    """Weights of n x k; `shard` names the axis that tensor parallelism divides."""

    n: Whole
    k: Whole
    shard: Literal["n", "k", "none"]


class LatentAttention(Strict):
    """Multi-head latent attention (DeepSeek-V2, 2024-05): what a token leaves in the cache.

    latent              rank of the compressed keys and values, one vector for all heads
    rope                size of the key part that carries the position, one vector for all heads
    value               size of one head's value
    compressed_queries  queries come from a compressed vector, too (matrices q_down and q_up), or
                        from the stream between layers (q), as in DeepSeek-V2-Lite
    """

    latent: Whole
    rope: Whole
    value: Whole
    compressed_queries: bool = True

    @property
    def query_matrix(self) -> str:
        """The matrix that makes the queries of all heads."""
        return "q_up" if self.compressed_queries else "q"


class Experts(Strict):
    """Routed feed-forward networks; the matrices expert_* are those of one expert.

    per_token     routed experts that each token visits
    shared        experts of the same size that every token visits
    dense_layers  first layers, which have the matrices dense_* instead of experts
    """

    count: Whole
    per_token: Whole
    shared: Natural = 0
    dense_layers: Natural = 0

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> "Experts":
        if self.per_token > self.count:
            raise ValueError(f"per_token is {self.per_token}, and there are {self.count} experts")
        return self


class Architecture(Strict):
    """What the matrices of a layer do not say; sizes that follow from them are left out.

    kv_heads         heads whose keys and values are cached (not used with `latent`)
    head_dim         size of one head's query and key, without the part `latent.rope`
    tied_embeddings  the output head is the embedding table
    """

    layers: Whole
    vocabulary: Whole
    heads: Whole
    kv_heads: Whole
    head_dim: Whole
    tied_embeddings: bool = False
    latent: LatentAttention | None = None
    experts: Experts | None = None

    @model_validator(mode="after")
    def _counts_fit(self) -> "Architecture":
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key/value heads")
        if self.experts and self.experts.dense_layers >= self.layers:
            raise ValueError(f"experts.dense_layers leaves no layer of {self.layers} for experts")
        return self

    @property
    def attention_inputs(self) -> tuple[str, ...]:
        """The matrices that make queries, keys and values, in the order in which they run."""
        if self.latent is None:
            return ("qkv",)
        down = ("q_down",) if self.latent.compressed_queries else ()
        return (*down, self.latent.query_matrix, "kv_down", "kv_up")

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the matrices that such a model has."""
        attention = (*self.attention_inputs, "attention_out")
        if self.experts is None:
            return (*attention, "gate_up", "down")
        dense = ("dense_gate_up", "dense_down") if self.experts.dense_layers else ()
        return (*attention, *dense, "expert_gate_up", "expert_down")

    @property
    def implied_sizes(self) -> dict[str, int]:
        """Sides of matrices that follow from the heads: "<matrix>.<axis>" -> size."""
        if self.latent is None:
            return {
                "qkv.n": (self.heads + 2 * self.kv_heads) * self.head_dim,
                "attention_out.k": self.heads * self.head_dim,
            }
        return {
            f"{self.latent.query_matrix}.n": self.heads * (self.head_dim + self.latent.rope),
            "kv_down.n": self.latent.latent + self.latent.rope,
            "kv_up.n": self.heads * (self.head_dim + self.latent.value),
            "attention_out.k": self.heads * self.latent.value,
        }


class LanguageModel(Strict):
    """config/models/<model>.yaml: the matrices of one layer, and the architecture around them.

    Studies of layers read the matrices alone; `architecture` is for whole blocks and models.
    left_out: what the model has and the file does not hold, one line each, for people to read.
    """

    model: str
    source: str
    matrices: dict[str, Matrix] = Field(min_length=1)
    architecture: Architecture | None = None
    left_out: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _matrices_fit_the_architecture(self) -> "LanguageModel":
        if self.architecture is None:
            return self
        needed, listed = set(self.architecture.matrix_names), set(self.matrices)
        if needed != listed:
            missing, unknown = sorted(needed - listed), sorted(listed - needed)
            raise ValueError(
                f"its architecture needs the matrices {', '.join(self.architecture.matrix_names)}; "
                f"missing: {', '.join(missing) or 'none'}, unknown: {', '.join(unknown) or 'none'}"
            )
        for name, size in self.architecture.implied_sizes.items():
            matrix, axis = name.split(".")
            listed_size = getattr(self.matrices[matrix], axis)
            if listed_size != size:
                raise ValueError(f"matrices.{name} is {listed_size}, and its heads make it {size}")
        return self


def load_model(folder: Path, name: str) -> LanguageModel:
    """The language model of `folder`/<name>.yaml, or of the file `name` where it ends in .yaml.

    Raises ConfigError for a name without a file, with the nearest one, and for what is wrong in it.
    """
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    if name.endswith(".yaml"):
        folder, name = Path(name).parent, Path(name).stem
    elif name not in names:
        hint = did_you_mean_or_all(name, names)
        raise ConfigError(
            f"unknown model '{name}'{hint}; models are files of {folder}, or a path of such a file "
            "or of a config.json"
        )
    errors: list[str] = []
    path = folder / f"{name}.yaml"
    model = validated(LanguageModel, read_yaml(path, errors), path, errors)
    if model is None:
        raise ConfigError("\n".join(errors))
    return model


def load_models(folder: Path) -> dict[str, LanguageModel]:
    """The language models of all files of a folder by name; raises ConfigError as load_model."""
    return {path.stem: load_model(folder, path.stem) for path in sorted(folder.glob("*.yaml"))}
