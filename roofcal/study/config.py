"""config/*.yaml -> one validated Study. Every error of every file is reported together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, get_args

from roofcal.claims import Ledger, read_ledgers
from roofcal.core.language_models import LanguageModel
from roofcal.core.names import did_you_mean_or_all, unknown_names
from roofcal.core.yaml_files import ConfigError, read_yaml, validated
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.spec import OpSpec
from roofcal.study.schema import Backend, Blocks, Size, StudyFile, Sweep, SweepFile

M = TypeVar("M", StudyFile, SweepFile, LanguageModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A validated study; slices of it, as plain JSON values, are the parameters of the rules."""

    file: StudyFile
    sweep_files: Mapping[str, SweepFile]
    models: Mapping[str, LanguageModel]
    ledgers: Sequence[Ledger] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """Names of the ops to measure, probes first."""
        return tuple(self.file.ops or self.sweep_files)

    def timing(self, backend: Backend) -> dict[str, Any]:
        """The timing protocol of a backend, plus the seed of the data."""
        timing = self.file.timing_on(backend, self.file.study)
        return timing.model_dump() | {"seed": self.file.seed}

    def sizes_with(self, op: str, backend: Backend) -> list[str]:
        """The sizes of the study, the smallest first, that measure points of `op` on `backend`."""
        sizes = self.sweep_files[op].studies
        return [size for size in get_args(Size) if sizes.get(size, {}).get(backend)]

    def op_slice(self, op: str, backend: Backend) -> dict[str, Any]:
        """All that decides which points of `op` are measured on `backend`, as JSON values."""
        source = self.sweep_files[op]
        names = source.studies.get(self.file.study, {}).get(backend, [])
        name_of = BY_NAME[op].written_recipe
        # Name in the file -> name of the recipe that is written down there.
        written = {n: name_of(recipe) for n, recipe in source.recipes.items()} if name_of else {}
        sweeps = {name: source.sweeps[name] for name in names}
        for name, sweep in sweeps.items():
            if sweep.recipes is not None:
                recipes = [written.get(recipe, recipe) for recipe in sweep.recipes]
                sweeps[name] = sweep.model_copy(update={"recipes": recipes})
        if self.file.shapes_csv and op == "gemm":
            sweeps["csv"] = Sweep(csv=self.file.shapes_csv)
        layers = {name for sweep in sweeps.values() if sweep.layers for name in sweep.layers.models}
        blocks = {name for sweep in sweeps.values() if sweep.blocks for name in sweep.blocks.models}
        sentinels = source.sentinel.get(backend, [])
        return {
            "op": op,
            "seed": self.file.seed,
            "contenders": {
                written.get(recipe, recipe): providers
                for recipe, providers in source.contenders.get(backend, {}).items()
            },
            "sweeps": {k: v.model_dump(mode="json", exclude_none=True) for k, v in sweeps.items()},
            "models": {
                name: self.models[name].model_dump(
                    exclude=None if name in blocks else {"architecture"}
                )
                for name in sorted(layers | blocks)
            },
            "sentinel": [sentinel.model_dump(mode="json") for sentinel in sentinels],
        }


def load_study(folder: Path, overrides: Mapping[str, Any] | None = None) -> Study:
    """Read and check config.yaml, sweeps/*.yaml and models/*.yaml below `folder`.

    overrides: top-level keys of config.yaml, as Snakemake's --config gives them.
    Raises ConfigError listing every error of every file.
    """
    errors: list[str] = []
    base = folder / "config.yaml"
    raw = _merged(read_yaml(base, errors), overrides or {})
    file = validated(StudyFile, raw, base, errors)
    sweeps = _read_all(folder / "sweeps", SweepFile, "op", errors)
    models = _read_all(folder / "models", LanguageModel, "model", errors)
    for op, sweep_file in sweeps.items():
        errors += _sweep_errors(folder / "sweeps" / f"{op}.yaml", op, sweep_file, models)
    ledgers = read_ledgers(folder / "claims", errors)
    if file is not None:
        errors += unknown_names(f"{base}: ops", "op", file.ops or (), tuple(sweeps))
        errors += unknown_names(f"{base}: publish.per_op", "op", file.publish.per_op, BY_NAME)
        if file.ops == []:
            everything = ", ".join(sweeps)
            errors.append(f"{base}: ops: is empty; leave it out to measure all of {everything}")
        if file.shapes_csv and not Path(file.shapes_csv).is_file():
            errors.append(f"{base}: shapes_csv: no such file '{file.shapes_csv}'")
    if errors or file is None:
        raise ConfigError("\n".join(errors))
    ordered = {op.name: sweeps[op.name] for op in OPS if op.name in sweeps}
    return Study(file=file, sweep_files=ordered, models=models, ledgers=ledgers)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` replaced, mapping by mapping."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        merged[key] = _merged(base[key], value) if both else value
    return merged


def _read_all(folder: Path, kind: type[M], key: str, errors: list[str]) -> dict[str, M]:
    parsed_by_stem: dict[str, M] = {}
    for path in sorted(folder.glob("*.yaml")):
        content = read_yaml(path, errors)
        parsed = validated(kind, content, path, errors) if content else None
        if parsed is None:
            continue
        if getattr(parsed, key) != path.stem:
            errors.append(f"{path}: {key}: '{getattr(parsed, key)}' differs from the file name")
        parsed_by_stem[path.stem] = parsed
    if not parsed_by_stem and not errors:
        errors.append(f"{folder}: holds no valid *.yaml file")
    return parsed_by_stem


def _sweep_errors(
    path: Path, name: str, file: SweepFile, models: Mapping[str, LanguageModel]
) -> Iterator[str]:
    op = BY_NAME.get(name)
    if op is None:
        yield f"{path}: op: unknown op '{name}'{did_you_mean_or_all(name, tuple(BY_NAME))}"
        return
    for recipe, description in file.recipes.items():
        where = f"{path}: recipes.{recipe}"
        if op.written_recipe is None:
            takes = f"op '{op.name}' takes none; its recipes are {', '.join(op.recipes)}"
            yield f"{path}: recipes: {takes}"
            break
        if recipe in op.recipes:
            yield f"{where}: is the name of another recipe of op '{op.name}'; choose another"
        try:
            op.written_recipe(description)
        except ValueError as error:
            yield f"{where}: {error}"
    yield from _contender_errors(path, op, file)
    for study, backends in file.studies.items():
        for backend, names in backends.items():
            where = f"{path}: studies.{study}.{backend}"
            yield from unknown_names(where, "sweep", names, tuple(file.sweeps))
    for title, sweep in file.sweeps.items():
        where = f"{path}: sweeps.{title}"
        yield from _one_sweep_errors(where, op, sweep, file.recipes, models)


def _contender_errors(path: Path, op: OpSpec, file: SweepFile) -> Iterator[str]:
    for backend, recipes in file.contenders.items():
        where = f"{path}: contenders.{backend}"
        yield from unknown_names(where, "recipe", tuple(recipes), (*op.recipes, *file.recipes))
        for recipe, providers in recipes.items():
            backend_providers = op.providers_on(backend)
            yield from unknown_names(f"{where}.{recipe}", "provider", providers, backend_providers)
    for backend, sentinels in file.sentinel.items():
        for number, sentinel in enumerate(sentinels):
            where, known = f"{path}: sentinel.{backend}[{number}]", op.providers_on(backend)
            if op.shared_axis is None and sentinel.world_size > 1:
                yield f"{where}.world_size: op '{op.name}' runs on one device; remove the key"
            if op.shared_axis is not None and sentinel.world_size == 1:
                yield (
                    f"{where}: op '{op.name}' runs on several devices; say on how many, as "
                    "world_size: 2"
                )
            yield from unknown_names(where, "recipe", [sentinel.recipe], op.recipes)
            yield from unknown_names(where, "provider", [sentinel.provider], known)
            yield from unknown_names(f"{where}.shape", "axis", tuple(sentinel.shape), op.axes)


def _one_sweep_errors(
    where: str,
    op: OpSpec,
    sweep: Sweep,
    recipes: Iterable[str],
    models: Mapping[str, LanguageModel],
) -> Iterator[str]:
    if op.shared_axis is None and sweep.world_sizes is not None:
        yield f"{where}.world_sizes: op '{op.name}' runs on one device; remove the key"
    if op.shared_axis is not None and sweep.world_sizes is None:
        yield (
            f"{where}: op '{op.name}' runs on several devices; say on how many, "
            "as in world_sizes: [2, 4, 8]"
        )
    recipe_names = (*op.recipes, *recipes)
    yield from unknown_names(f"{where}.recipes", "recipe", sweep.recipes or (), recipe_names)
    every = set(op.every_provider)
    yield from unknown_names(f"{where}.providers", "provider", sweep.providers or (), tuple(every))
    for shape in sweep.shapes or ():
        if len(shape) != len(op.axes):
            yield f"{where}.shapes: {shape} has {len(shape)} sizes, needs {', '.join(op.axes)}"
    if sweep.grid:
        axes = [axis for key in sweep.grid for axis in key.split(",")]
        yield from unknown_names(f"{where}.grid", "axis", axes, op.axes)
        if missing := [axis for axis in op.axes if axis not in axes]:
            yield f"{where}.grid: axis {', '.join(missing)} has no values"
        for key, values in sweep.grid.items():
            width = len(key.split(","))
            if any((len(v) if isinstance(v, list) else 1) != width for v in values):
                yield f"{where}.grid.{key}: every entry needs {width} size(s)"
    if sweep.layers:
        yield from unknown_names(f"{where}.layers", "model", sweep.layers.models, tuple(models))
        if op.layer_shape is None:
            yield f"{where}.layers: op '{op.name}' has no shape for a layer; use grid or shapes"
    if sweep.blocks:
        yield from _blocks_errors(f"{where}.blocks", op, sweep.blocks, models)


def _blocks_errors(
    where: str, op: OpSpec, blocks: Blocks, models: Mapping[str, LanguageModel]
) -> Iterator[str]:
    if op.block_shape is None:
        yield f"{where}: op '{op.name}' has no shape for a block; use grid or shapes"
        return
    yield from unknown_names(where, "model", blocks.models, tuple(models))
    for name, tokens in product(blocks.models, blocks.tokens):
        try:
            if name in models:
                op.block_shape(models[name], tokens, blocks.sequence)
        except ValueError as error:
            yield f"{where}: {error}"
