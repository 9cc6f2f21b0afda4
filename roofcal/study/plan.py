"""Sweep slice + environment -> the points to measure, in the order of measuring.

Points of one shape and protocol stand together (a group): measure alternates between them, so that
they share the state of the card. Groups come in a seeded random order, with the sentinel between
them; the method panel comes last, because a profiler may slow what runs after it. Groups on equally
many devices follow each other: every other number of devices needs other processes.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

from roofcal.core.csv_files import read_shapes
from roofcal.core.language_models import LanguageModel
from roofcal.core.records import Environment, PlanPoint, Protocol
from roofcal.core.units import format_bytes
from roofcal.ops import BY_NAME
from roofcal.ops.spec import OpSpec, Shape
from roofcal.study.schema import Layers, LogUniform, Sweep


class PlanError(ValueError):
    """A sweep that cannot be planned; the message names sweep and shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Contenders that are timed in turns."""

    points: tuple[PlanPoint, ...]

    @property
    def last(self) -> bool:
        """Whether the group holds a method that may disturb others."""
        return self.points[0].protocol.method == "profiler"

    @property
    def world_size(self) -> int:
        """Devices that each of its points needs."""
        return self.points[0].world_size


def plan_op(plan_slice: Mapping[str, Any], environment: Environment) -> list[PlanPoint]:
    """The points of one op on one device, in order; equal points of several sweeps are one.

    Raises PlanError for an empty plan, csv_files.CsvError for a bad CSV.
    """
    op = BY_NAME[plan_slice["op"]]
    models = {k: LanguageModel.model_validate(v) for k, v in plan_slice["models"].items()}
    merged: dict[str, PlanPoint] = {}
    for name, raw in plan_slice["sweeps"].items():
        sweep = Sweep.model_validate(raw)
        shapes = list(sweep_shapes(op, sweep, models, environment.memory_bytes))
        for point in _points(op, name, sweep, shapes, plan_slice["contenders"], environment.device):
            known = merged.get(point.point_id)
            sweeps = (*known.sweeps, name) if known else (name,)
            merged[point.point_id] = replace(point, sweeps=sweeps)
    if not merged:
        raise PlanError(
            f"{op.name}: nothing to measure on {environment.backend}: "
            "no sweep of this study names it"
        )
    sentinel = _sentinel(op, plan_slice["sentinel"], environment.device)
    return _ordered(list(merged.values()), plan_slice["seed"], sentinel)


def sweep_shapes(
    op: OpSpec, sweep: Sweep, models: Mapping[str, LanguageModel], memory_bytes: int | None
) -> Iterator[Shape]:
    """The shapes of a sweep, in its own order; see roofcal.study.schema for the generators."""
    if sweep.cubes:
        yield from (dict.fromkeys(op.axes, side) for side in sweep.cubes)
    if sweep.shapes:
        yield from (dict(zip(op.axes, sizes, strict=True)) for sizes in sweep.shapes)
    if sweep.grid:
        yield from _grid_shapes(op, sweep.grid)
    if sweep.log_uniform:
        yield from _log_uniform_shapes(op, sweep.log_uniform)
    if sweep.layers:
        yield from _layer_shapes(op, sweep.layers, models)
    if sweep.csv:
        yield from _csv_shapes(op, Path(sweep.csv), memory_bytes)


def _grid_shapes(op: OpSpec, grid: Mapping[str, Sequence[Any]]) -> Iterator[Shape]:
    keys = [key.split(",") for key in grid]
    for values in product(*grid.values()):
        sizes: dict[str, int] = {}
        for axes, value in zip(keys, values, strict=True):
            sizes.update(zip(axes, value if isinstance(value, list) else [value], strict=True))
        yield {axis: sizes[axis] for axis in op.axes}


def _log_uniform_shapes(op: OpSpec, spec: LogUniform) -> Iterator[Shape]:
    """Rejection sampling of sizes until `count` shapes stay below max_flops."""
    source = random.Random(spec.seed)
    found = 0
    while found < spec.count:
        unaligned = source.random() < spec.unaligned_fraction
        multiple = source.choice(spec.unaligned_multiples) if unaligned else spec.multiple
        shape = {axis: _log_uniform(source, spec.low, spec.high, multiple) for axis in op.axes}
        if source.random() < spec.skinny_fraction:
            shape[op.axes[0]] = _log_uniform(source, 1, spec.skinny_max, 1)
        if op.work(op.recipes[0], shape).flops <= spec.max_flops:
            found += 1
            yield shape


def _log_uniform(source: random.Random, low: int, high: int, multiple: int) -> int:
    value: float = low * (high / low) ** source.random()
    return max(multiple, round(value / multiple) * multiple)


def _layer_shapes(
    op: OpSpec, layers: Layers, models: Mapping[str, LanguageModel]
) -> Iterator[Shape]:
    if op.layer_shape is None:
        raise PlanError(f"{op.name}: has no shape for a layer")
    for name, degree, tokens in product(layers.models, layers.tensor_parallel, layers.tokens):
        for matrix in models[name].matrices.values():
            n = matrix.n // degree if matrix.shard == "n" else matrix.n
            k = matrix.k // degree if matrix.shard == "k" else matrix.k
            yield op.layer_shape(tokens, n, k)


def _csv_shapes(op: OpSpec, path: Path, memory_bytes: int | None) -> Iterator[Shape]:
    for line, shape in read_shapes(path, op.axes):
        need = min(op.work(recipe, shape).dram_bytes for recipe in op.recipes)
        if memory_bytes is not None and need > memory_bytes:
            raise PlanError(
                f"{path}:{line}: {shape} needs {format_bytes(need)}, the device has "
                f"{format_bytes(memory_bytes)}; remove the line or choose smaller sizes"
            )
        yield shape


def _points(
    op: OpSpec,
    name: str,
    sweep: Sweep,
    shapes: Sequence[Shape],
    contenders: Mapping[str, Sequence[str]],
    device: str,
) -> Iterator[PlanPoint]:
    world_sizes = _world_sizes(op, name, sweep, shapes)
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


def _world_sizes(op: OpSpec, name: str, sweep: Sweep, shapes: Sequence[Shape]) -> Sequence[int]:
    """The world sizes of a sweep; raises PlanError for a shape that devices cannot share out."""
    axis, world_sizes = op.shared_axis, sweep.world_sizes or [1]
    for shape, size in product(shapes, world_sizes):
        if axis is not None and shape[axis] % size:
            raise PlanError(
                f"config/sweeps/{op.name}.yaml: sweeps.{name}: {axis}={shape[axis]} of the shape "
                f"{dict(shape)} is no multiple of world size {size}, and its devices share it out "
                f"evenly; give multiples of {math.lcm(*world_sizes)}, or other world_sizes"
            )
    return world_sizes


def _sentinel(
    op: OpSpec, raw: Mapping[str, Any] | None, device: str
) -> tuple[PlanPoint, int] | None:
    if raw is None:
        return None
    shape = {axis: raw["shape"][axis] for axis in op.axes}
    point = PlanPoint(
        op=op.name,
        provider=raw["provider"],
        recipe=raw["recipe"],
        shape=shape,
        device=device,
        protocol=Protocol(),
        sweeps=("sentinel",),
    )
    return point, raw["every"]


def _ordered(
    points: list[PlanPoint], seed: int, sentinel: tuple[PlanPoint, int] | None
) -> list[PlanPoint]:
    groups = [_Group(points=tuple(members)) for _, members in _grouped(points)]
    random.Random(seed).shuffle(groups)
    groups.sort(key=lambda group: (group.last, group.world_size))
    ordered: list[PlanPoint] = []
    repeat = 0
    for index, group in enumerate(groups):
        if sentinel is not None and index % sentinel[1] == 0:
            repeat += 1
            ordered.append(replace(sentinel[0], repeat=repeat))
        ordered += group.points
    return ordered


def _grouped(points: list[PlanPoint]) -> Iterator[tuple[str, list[PlanPoint]]]:
    ordered = sorted(points, key=lambda point: point.group_key)
    for key, members in groupby(ordered, key=lambda point: point.group_key):
        yield key, list(members)
