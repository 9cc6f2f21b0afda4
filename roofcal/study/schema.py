"""What may stand in config/*.yaml: one class per file. config/schema/ holds their JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from roofcal.core.records import Protocol

Backend = Literal["cuda", "cpu"]
Positive = Annotated[int, Field(strict=True, gt=0)]
WorldSize = Annotated[int, Field(strict=True, ge=2)]
Seconds = Annotated[float, Field(gt=0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Timing(_Model):
    """How long a point is timed, and when it is good enough. Durations in seconds.

    settle_*         warm-up of a group of contenders: at least / at most, per contender
    settle_tolerance three rounds in a row whose medians differ by less count as settled
    slice_s          one contender's turn; contenders of a shape alternate slice by slice
    budget_s         most time spent timing one contender after it has settled
    target_interval  stop when half the 95 % interval of the median is below this fraction
    min_samples      fewest settled samples
    min_rounds       fewest turns they come from: samples of one turn share one state of the card
    sample_s         shortest duration of one sample; short kernels are repeated within it
    warm_card_s      load before the first point, until the card is at its working temperature
    point_timeout_s  a contender that takes longer is killed and recorded as `timeout`
    """

    settle_min_s: Seconds = 0.15
    settle_max_s: Seconds = 0.6
    settle_tolerance: Seconds = 0.01
    slice_s: Seconds = 0.02
    budget_s: Seconds = 0.4
    target_interval: Annotated[float, Field(gt=0, lt=1)] = 0.01
    min_samples: Positive = 15
    min_rounds: Positive = 4
    sample_s: Seconds = 0.001
    warm_card_s: Annotated[float, Field(ge=0)] = 5.0
    point_timeout_s: Seconds = 120.0


class LogUniform(_Model):
    """Random shapes, sizes log-uniform between two bounds per axis, rounded to `multiple`.

    skinny_fraction: share of the shapes whose first axis is drawn from 1 .. skinny_max instead
    unaligned_fraction: share rounded to one of `unaligned_multiples` instead: on an H200, fp8 rows
    that do not start on 32 bytes run up to 1.4 times slower, bf16 rows off 16 bytes 2 to 6 times
    """

    count: Positive
    seed: int
    low: Positive
    high: Positive
    multiple: Positive = 64
    unaligned_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    unaligned_multiples: list[Positive] = [16]
    skinny_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    skinny_max: Positive = 64
    max_flops: Annotated[float, Field(gt=0)] = 1e15


class Layers(_Model):
    """Weights of models under config/models, at tensor-parallel degrees and token counts."""

    models: list[str] = Field(min_length=1)
    tensor_parallel: list[Positive] = Field(min_length=1)
    tokens: list[Positive] = Field(min_length=1)


class Sweep(_Model):
    """Shapes from exactly one generator, timed under each protocol by each contender.

    recipes, providers: restrict the contenders of the file to these.
    world_sizes: numbers of devices that share a point, for ops that run on several.
    """

    cubes: list[Positive] | None = None
    shapes: list[list[Positive]] | None = None
    grid: dict[str, list[Positive] | list[list[Positive]]] | None = None
    log_uniform: LogUniform | None = None
    layers: Layers | None = None
    csv: str | None = None
    protocols: list[Protocol] = [Protocol()]
    recipes: list[str] | None = None
    providers: list[str] | None = None
    world_sizes: Annotated[list[WorldSize], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_generator(self) -> "Sweep":
        names = ("cubes", "shapes", "grid", "log_uniform", "layers", "csv")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"a sweep needs exactly one of {', '.join(names)}; got {given or 'none'}"
            )
        if getattr(self, given[0]) in ([], {}):
            raise ValueError(f"'{given[0]}' is empty: an empty sweep measures nothing")
        return self


class Sentinel(_Model):
    """A point repeated through the session to see drift: once per `every` groups of contenders."""

    provider: str
    recipe: str
    shape: dict[str, Positive]
    every: Positive = 20


class SweepFile(_Model):
    """config/sweeps/<op>.yaml: who competes, which sweeps there are, which a study runs.

    recipes: name -> a recipe that is written down here, for ops whose recipes can be.
    """

    op: str
    recipes: dict[str, dict[str, Any]] = {}
    contenders: dict[Backend, dict[str, list[str]]]
    sweeps: dict[str, Sweep]
    studies: dict[Literal["quick", "standard", "full"], dict[Backend, list[str]]]
    sentinel: dict[Backend, Sentinel] = {}


class Matrix(_Model):
    """Weights of n x k; `shard` names the axis that tensor parallelism divides."""

    n: Positive
    k: Positive
    shard: Literal["n", "k", "none"]


class LatentAttention(_Model):
    """Multi-head latent attention (DeepSeek-V2, 2024-05): what a token leaves in the cache.

    latent  rank of the compressed keys and values, one vector for all heads
    rope    size of the key part that carries the position, one vector for all heads
    value   size of one head's value
    """

    latent: Positive
    rope: Positive
    value: Positive


class Experts(_Model):
    """Routed feed-forward networks; the matrices expert_* are those of one expert.

    per_token     routed experts that each token visits
    shared        experts of the same size that every token visits
    dense_layers  first layers, which have the matrices dense_* instead of experts
    """

    count: Positive
    per_token: Positive
    shared: Annotated[int, Field(strict=True, ge=0)] = 0
    dense_layers: Annotated[int, Field(strict=True, ge=0)] = 0

    @model_validator(mode="after")
    def _no_more_than_there_are(self) -> "Experts":
        if self.per_token > self.count:
            raise ValueError(f"per_token is {self.per_token}, and there are {self.count} experts")
        return self


class Architecture(_Model):
    """What the matrices of a layer do not say; sizes they do say are not repeated here.

    kv_heads         heads whose keys and values are cached (not used with `latent`)
    head_dim         size of one head's query and key, without the part `latent.rope`
    tied_embeddings  the output head is the embedding table
    """

    layers: Positive
    vocabulary: Positive
    heads: Positive
    kv_heads: Positive
    head_dim: Positive
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
    def matrix_names(self) -> tuple[str, ...]:
        """Names of the matrices that such a model has."""
        latent = ("q_down", "q_up", "kv_down", "kv_up")
        attention = (*(latent if self.latent else ("qkv",)), "attention_out")
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
            "q_up.n": self.heads * (self.head_dim + self.latent.rope),
            "kv_down.n": self.latent.latent + self.latent.rope,
            "kv_up.n": self.heads * (self.head_dim + self.latent.value),
            "attention_out.k": self.heads * self.latent.value,
        }


class LanguageModel(_Model):
    """config/models/<model>.yaml: the matrices of one layer, and what makes them a model.

    Studies read the matrices alone; `architecture` is for `python -m roofcal llm`.
    """

    model: str
    source: str
    matrices: dict[str, Matrix] = Field(min_length=1)
    architecture: Architecture | None = None

    @model_validator(mode="after")
    def _matrices_fit_the_architecture(self) -> "LanguageModel":
        if self.architecture is None:
            return self
        wanted, given = set(self.architecture.matrix_names), set(self.matrices)
        if wanted != given:
            missing, extra = sorted(wanted - given), sorted(given - wanted)
            raise ValueError(
                f"its architecture needs the matrices {', '.join(self.architecture.matrix_names)}; "
                f"missing: {', '.join(missing) or 'none'}, not known: {', '.join(extra) or 'none'}"
            )
        for name, size in self.architecture.implied_sizes.items():
            matrix, axis = name.split(".")
            found = getattr(self.matrices[matrix], axis)
            if found != size:
                raise ValueError(f"matrices.{name} is {found}, and its heads make it {size}")
        return self


class Publishing(_Model):
    """When `publish` refuses a run: the largest error of predictions on points no fit has seen.

    largest_error  MAPE of the calibrated model over the study points of an op, a fraction
    per_op         the same for ops with a limit of their own
    """

    largest_error: Annotated[float, Field(gt=0, lt=1)] = 0.15
    per_op: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}


class StudyFile(_Model):
    """config/config.yaml: the study.

    gpus_per_node  GPUs that a measuring job asks for at most, where points share several
    """

    study: Literal["quick", "standard", "full"] = "quick"
    devices: Literal["auto"] | list[str] = "auto"
    gpus_per_node: Positive = 8
    published: bool = True
    seed: int = 0
    ops: list[str] | None = None
    shapes_csv: str | None = None
    timing: dict[Backend, Timing] = {"cuda": Timing(), "cpu": Timing()}
    publish: Publishing = Publishing()

    @field_validator("devices", mode="before")
    @classmethod
    def _list_of_devices(cls, value: object) -> object:
        if isinstance(value, str) and value != "auto":
            raise ValueError(f'give "auto" or a list: ["{value}"]')
        return value
