"""What may stand in config/*.yaml: one class per file. config/schema/ holds their JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from roofcal.core.records import Protocol
from roofcal.core.timing_protocol import Timing

Backend = Literal["cuda", "cpu"]
Positive = Annotated[int, Field(strict=True, gt=0)]
WorldSize = Annotated[int, Field(strict=True, ge=2)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
