"""What may stand in config/*.yaml: one class per file. config/schema/ holds their JSON Schema."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from roofcal.core.language_models import LanguageModel
from roofcal.core.records import Protocol
from roofcal.core.timing_protocol import Timing
from roofcal.core.yaml_files import Whole


def _without_braces(path: str) -> str:
    """A path; raises ValueError for one that Snakemake would take for a pattern."""
    if "{" in path or "}" in path:
        raise ValueError("Snakemake takes braces for wildcards; rename the file")
    return path


Backend = Literal["cuda", "cpu"]
Size = Literal["minute", "quick", "standard", "full"]
Count = Annotated[int, Field(strict=True, gt=0, le=100_000)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=1 << 48)]
NodeNames = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,999}$")]
CsvFile = Annotated[str, AfterValidator(_without_braces)]
WorldSize = Annotated[int, Field(strict=True, ge=2, le=4096)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LogUniform(_Model):
    """Random shapes, sizes log-uniform between two bounds per axis, rounded to `multiple`.

    skinny_fraction: share of the shapes whose first axis is drawn from 1 .. skinny_max instead
    unaligned_fraction: share rounded to one of `unaligned_multiples` instead: on an H200, fp8 rows
    that do not start on 32 bytes run up to 1.4 times slower, bf16 rows off 16 bytes 2 to 6 times
    """

    count: Count
    seed: Seed
    low: Whole
    high: Whole
    multiple: Whole = 64
    unaligned_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    unaligned_multiples: list[Whole] = [16]
    skinny_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    skinny_max: Whole = 64
    max_flops: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1e15


class Layers(_Model):
    """Weights of models under config/models, at tensor-parallel degrees and token counts."""

    models: list[str] = Field(min_length=1)
    tensor_parallel: list[Whole] = Field(min_length=1)
    tokens: list[Whole] = Field(min_length=1)


class Blocks(_Model):
    """Whole blocks of models under config/models at token counts, for ops that are such a block.

    sequence: most tokens of a sequence; fewer tokens are one shorter sequence
    """

    models: list[str] = Field(min_length=1)
    tokens: list[Whole] = Field(min_length=1)
    sequence: Whole


class Sweep(_Model):
    """Shapes from exactly one generator, timed under each protocol by each contender.

    recipes, providers: restrict the contenders of the file to these.
    world_sizes: numbers of devices that share a point, for ops that run on several.
    """

    cubes: list[Whole] | None = None
    shapes: list[list[Whole]] | None = None
    grid: dict[str, list[Whole] | list[list[Whole]]] | None = None
    log_uniform: LogUniform | None = None
    layers: Layers | None = None
    blocks: Blocks | None = None
    csv: CsvFile | None = None
    protocols: list[Protocol] = [Protocol()]
    recipes: list[str] | None = None
    providers: list[str] | None = None
    world_sizes: Annotated[list[WorldSize], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_generator(self) -> "Sweep":
        names = ("cubes", "shapes", "grid", "log_uniform", "layers", "blocks", "csv")
        generators = [name for name in names if getattr(self, name) is not None]
        if len(generators) != 1:
            raise ValueError(
                f"a sweep needs exactly one of {', '.join(names)}; got {generators or 'none'}"
            )
        if getattr(self, generators[0]) in ([], {}):
            raise ValueError(f"'{generators[0]}' is empty: an empty sweep measures nothing")
        return self


class Sentinel(_Model):
    """A point measured at start, middle and end of every session: what drifts, shows there.

    world_size: number of devices that share it, for ops that run on several.
    """

    provider: str
    recipe: str
    shape: dict[str, Whole]
    world_size: Annotated[int, Field(strict=True, ge=1, le=4096)] = 1
    protocol: Protocol = Protocol()


class SweepFile(_Model):
    """config/sweeps/<op>.yaml: who competes, which sweeps there are, which a study runs.

    recipes: name -> a recipe that is written down here, for ops whose recipes can be.
    """

    op: str
    recipes: dict[str, dict[str, Any]] = {}
    contenders: dict[Backend, dict[str, list[str]]]
    sweeps: dict[str, Sweep]
    studies: dict[Size, dict[Backend, list[str]]]
    sentinel: dict[Backend, list[Sentinel]] = {}


class OpSlice(_Model):
    """All that the configuration says of which points of one op are measured on one backend.

    It is the parameter of a rule, as JSON, so that Snakemake plans again when any of it changes.
    """

    op: str
    seed: Seed
    contenders: dict[str, list[str]]
    sweeps: dict[str, Sweep]
    models: dict[str, LanguageModel] = {}
    sentinel: list[Sentinel] = []


class Publishing(_Model):
    """When `publish` refuses a run: the largest error of predictions on points no fit has seen.

    largest_error  MAPE of the calibrated model over the study points of an op, a fraction
    per_op         the same for ops with a limit of their own
    """

    largest_error: Annotated[float, Field(gt=0, lt=1)] = 0.15
    per_op: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}


class StudyFile(_Model):
    """config/config.yaml: the study.

    study          size of the study: how many points it measures; a minute, minutes, half an
                   hour, hours
    devices        "auto": those of this machine; on a cluster a list of `<device>/<environment_id>`
    gpus_per_node  most GPUs that a measuring job asks for, where points share several
    measuring_cores  processor cores that a job takes for each GPU it measures; derived files are
                   made on the others meanwhile. Measuring a CPU takes all of them
    measuring_memory_mb  memory that a job asks a cluster for, for each GPU it measures, in MB
    derive_in_jobs true: on a cluster, what follows from measurements is made in jobs too, so that
                   the login node is quiet; false: beside Snakemake
    fleet_nodes    nodes of a cluster that `snakemake fleet` measures, a job each: names, or SLURM's
                   way to write many, as n[01-16]; none: this machine
    published      true: the report shows publications as they were frozen, but where `study` is
                   minute; "again": all that follows from their records is derived anew, in
                   minutes; false: they are left out
    seed           seed of the operands' values and of the order of the points
    ops            ops that are measured; without it, each with a file in `config/sweeps/`
    shapes_csv     CSV file with the columns `m,n,k`: shapes of your own, added to op `gemm`
    timing         how long a point is timed, for each backend; the table below has its keys
    timing_of_study  keys of `timing` that a size of the study has otherwise, on every backend
    publish        what `publish` lets pass: `largest_error`, and `per_op` for ops with their own
    """

    study: Size = "quick"
    devices: Literal["auto"] | list[str] = "auto"
    gpus_per_node: Whole = 8
    measuring_cores: Whole = 4
    measuring_memory_mb: Whole = 32_000
    derive_in_jobs: bool = False
    fleet_nodes: list[NodeNames] = []
    published: bool | Literal["again"] = True
    seed: Seed = 0
    ops: list[str] | None = None
    shapes_csv: CsvFile | None = None
    timing: dict[Backend, Timing] = {"cuda": Timing(), "cpu": Timing()}
    timing_of_study: dict[Size, dict[str, int | float]] = {}
    publish: Publishing = Publishing()

    @property
    def shows_published(self) -> bool:
        """Whether the report shows publications.

        That of a minute shows its own card alone: two published GPUs took 25 of 133 s on an H100.
        """
        return self.published == "again" or (self.published and self.study != "minute")

    @model_validator(mode="after")
    def _timing_of_every_size(self) -> "StudyFile":
        for size in self.timing_of_study:
            for backend in self.timing:
                try:
                    self.timing_on(backend, size)
                except ValidationError as error:
                    first = error.errors()[0]
                    key = ".".join(map(str, first["loc"]))
                    raise ValueError(f"timing_of_study.{size}.{key}: {first['msg']}") from None
        return self

    def timing_on(self, backend: Backend, size: Size) -> Timing:
        """The timing protocol of a backend in a study of a size."""
        changed = self.timing_of_study.get(size, {})
        return Timing.model_validate(self.timing[backend].model_dump() | changed)

    @field_validator("fleet_nodes", mode="before")
    @classmethod
    def _list_of_nodes(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("devices", mode="before")
    @classmethod
    def _list_of_devices(cls, value: object) -> object:
        if isinstance(value, str) and value != "auto":
            raise ValueError(f'give "auto" or a list: ["{value}"]')
        return value
