"""Sweep slice + environment -> the points to measure, in the order of measuring.

The sentinels come first, then the groups (points of one shape and protocol, which take turns) in a
seeded random order, see roofcal.core.visits.rows.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, product
from pathlib import Path
from typing import Any, Final

from roofcal.core.csv_files import read_shapes
from roofcal.core.language_models import LanguageModel
from roofcal.core.records import Environment, PlanPoint
from roofcal.core.units import format_bytes
from roofcal.core.visits.rows import SENTINEL, shuffled_groups
from roofcal.core.yaml_files import validated
from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec, Shape
from roofcal.study.schema import LogUniform, OpSlice, Sentinel, Sweep

MOST_POINTS: Final = 100_000  # of one op: 28 hours at a second each
_MOST_DRAWS: Final = 1000  # per shape that a log_uniform sweep asks for


class PlanError(ValueError):
    """A sweep that cannot be planned; the message names sweep and shape."""


def plan_op(op_slice: Mapping[str, Any], environment: Environment) -> list[PlanPoint]:
    """The points of one op on one device, in order; equal points of several sweeps are one.

    op_slice: an OpSlice as JSON values.
    Raises PlanError for a bad slice, an empty plan or more than MOST_POINTS, csv_files.CsvError for
    a bad CSV.
    """
    errors: list[str] = []
    checked = validated(OpSlice, op_slice, Path("--slice"), errors)
    if checked is None:
        raise PlanError("\n".join(errors))
    if checked.op not in BY_NAME:
        raise PlanError(f"--slice: unknown op '{checked.op}'; allowed: {', '.join(BY_NAME)}")
    op = BY_NAME[checked.op]
    merged: dict[str, PlanPoint] = {}
    for name, sweep in checked.sweeps.items():
        where = f"config/sweeps/{op.name}.yaml: sweeps.{name}"
        shapes = sweep_shapes(op, sweep, checked.models, environment.memory_bytes)
        listed = list(islice(shapes, MOST_POINTS + 1))
        for point in _points(op, name, sweep, listed, checked.contenders, environment.device):
            planned = merged.get(point.point_id)
            sweeps = (*planned.sweeps, name) if planned else (name,)
            merged[point.point_id] = replace(point, sweeps=sweeps)
            if len(merged) > MOST_POINTS:
                raise PlanError(f"{where}: makes the plan longer than {MOST_POINTS} points")
    if not merged:
        raise PlanError(
            f"{op.name}: nothing to measure on {environment.backend}: "
            "no sweep of this study names it"
        )
    groups = shuffled_groups(merged.values(), checked.seed)
    panel = [_sentinel_point(op, sentinel, environment.device) for sentinel in checked.sentinel]
    in_groups = sorted(panel, key=lambda point: (point.world_size, point.group_key))
    return [*in_groups, *(point for group in groups for point in group)]


def sweep_shapes(
    op: OpSpec, sweep: Sweep, models: Mapping[str, LanguageModel], memory_bytes: int | None
) -> Iterator[Shape]:
    """The shapes of a sweep, in its own order; see roofcal.study.schema for the generators."""
    if sweep.cubes:
        yield from (dict.fromkeys(op.axes, side) for side in sweep.cubes)
    if sweep.shapes:
        yield from (dict(zip(op.axes, sizes, strict=True)) for sizes in sweep.shapes)
    if sweep.grid:
        for values in product(*sweep.grid.values()):
            sizes: dict[str, int] = {}
            for axes, value in zip(sweep.grid, values, strict=True):
                each: list[Any] = value if isinstance(value, list) else [value]
                sizes.update(zip(axes.split(","), each, strict=True))
            yield {axis: sizes[axis] for axis in op.axes}
    if sweep.log_uniform:
        yield from _log_uniform_shapes(op, sweep.log_uniform)
    if sweep.layers or sweep.blocks:
        yield from _model_shapes(op, sweep, models)
    for line, shape in read_shapes(Path(sweep.csv), op.axes) if sweep.csv else ():
        need = min(op.work(recipe, shape).dram_bytes for recipe in op.recipes)
        if memory_bytes is not None and need > memory_bytes:
            raise PlanError(
                f"{sweep.csv}:{line}: {shape} needs {format_bytes(need)}, the device has "
                f"{format_bytes(memory_bytes)}; remove the line or choose smaller sizes"
            )
        yield shape


def _log_uniform_shapes(op: OpSpec, spec: LogUniform) -> Iterator[Shape]:
    """Rejection sampling of sizes until `count` shapes stay below max_flops."""
    source = random.Random(spec.seed)
    drawn = 0
    for _ in range(_MOST_DRAWS * spec.count):
        unaligned = source.random() < spec.unaligned_fraction
        multiple = source.choice(spec.unaligned_multiples) if unaligned else spec.multiple
        shape = {axis: _log_uniform(source, spec.low, spec.high, multiple) for axis in op.axes}
        if source.random() < spec.skinny_fraction:
            shape[op.axes[0]] = _log_uniform(source, 1, spec.skinny_max, 1)
        if op.work(op.recipes[0], shape).flops <= spec.max_flops:
            yield shape
            drawn += 1
            if drawn == spec.count:
                return
    raise PlanError(
        f"config/sweeps/{op.name}.yaml: log_uniform: {drawn} of {spec.count} shapes between "
        f"{spec.low} and {spec.high} stay below max_flops {spec.max_flops:g}; raise it"
    )


def _log_uniform(source: random.Random, low: int, high: int, multiple: int) -> int:
    value: float = low * (high / low) ** source.random()
    return max(multiple, round(value / multiple) * multiple)


def _model_shapes(op: OpSpec, sweep: Sweep, models: Mapping[str, LanguageModel]) -> Iterator[Shape]:
    """The matrices of layers, or whole blocks, of the language models that a sweep names."""
    if sweep.layers and op.layer_shape is None:
        raise PlanError(f"{op.name}: has no shape for a layer")
    if sweep.blocks and op.block_shape is None:
        raise PlanError(f"{op.name}: has no shape for a block")
    named = [chosen.models for chosen in (sweep.layers, sweep.blocks) if chosen is not None]
    for name in chain.from_iterable(named):
        if name not in models:
            raise PlanError(f"{op.name}: --slice holds no language model '{name}'")
    if (layers := sweep.layers) and op.layer_shape:
        for name, degree, tokens in product(layers.models, layers.tensor_parallel, layers.tokens):
            for matrix in models[name].matrices.values():
                n = matrix.n // degree if matrix.shard == "n" else matrix.n
                k = matrix.k // degree if matrix.shard == "k" else matrix.k
                yield op.layer_shape(tokens, n, k)
    if (blocks := sweep.blocks) and op.block_shape:
        for name, tokens in product(blocks.models, blocks.tokens):
            try:
                yield op.block_shape(models[name], tokens, blocks.sequence)
            except ValueError as error:
                raise PlanError(f"config/sweeps/{op.name}.yaml: blocks: {error}") from None


def _points(
    op: OpSpec,
    name: str,
    sweep: Sweep,
    shapes: Sequence[Shape],
    contenders: Mapping[str, Sequence[str]],
    device: str,
) -> Iterator[PlanPoint]:
    """Every contender on every shape and number of devices, under every protocol of a sweep.

    Raises PlanError for a shape that devices cannot share out.
    """
    axis, world_sizes = op.shared_axis, sweep.world_sizes or [1]
    for shape, size in product(shapes, world_sizes):
        if axis is not None and shape[axis] % size:
            raise PlanError(
                f"config/sweeps/{op.name}.yaml: sweeps.{name}: {axis}={shape[axis]} of the shape "
                f"{dict(shape)} is no multiple of world size {size}, and its devices share it out "
                f"evenly; give multiples of {math.lcm(*world_sizes)}, or other world_sizes"
            )
    every = product(shapes, world_sizes, sweep.protocols, contenders)
    for shape, world_size, protocol, recipe in every:
        if sweep.recipes is not None and recipe not in sweep.recipes:
            continue
        for provider in contenders[recipe]:
            if sweep.providers is None or provider in sweep.providers:
                yield PlanPoint(
                    op=op.name,
                    provider=provider,
                    recipe=recipe,
                    shape=shape,
                    device=device,
                    world_size=world_size,
                    protocol=protocol,
                    sweeps=(name,),
                )


def _sentinel_point(op: OpSpec, sentinel: Sentinel, device: str) -> PlanPoint:
    """A point that is measured again and again; never one of the study, because of its repeat."""
    missing = [axis for axis in op.axes if axis not in sentinel.shape]
    if missing:
        raise PlanError(f"{op.name}: the shape of a sentinel has no {', '.join(missing)}")
    return PlanPoint(
        op=op.name,
        provider=sentinel.provider,
        recipe=sentinel.recipe,
        shape={axis: sentinel.shape[axis] for axis in op.axes},
        device=device,
        world_size=sentinel.world_size,
        protocol=sentinel.protocol,
        repeat=1,
        sweeps=(SENTINEL,),
    )
