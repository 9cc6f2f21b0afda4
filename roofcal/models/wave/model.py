"""The wave model of products and casts: a device description in, seconds out, nothing fitted.

Products are those of roofcal.models.wave.gemm. A cast is a kernel that memory bounds:

    t = launch + bytes / achieved bandwidth

A product whose weights have fewer bits than its activations has the tiles and waves of bf16, bound
by arithmetic alone, and its own bytes: packed weights, scales, zero points, activations and output.
Neither the caches nor the conversion of weights to bf16 are modelled.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import did_you_mean, with_short_names
from roofcal.core.recipes import GEMM_RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.core.wave_device import WaveDevice
from roofcal.models.wave.gemm import ProductTimes, narrow_product_times
from roofcal.models.wave.gemm import product_times as gemm_times
from roofcal.models.wave.operators import kernel_time, stream_seconds, used_bytes_per_s
from roofcal.ops import BY_NAME
from roofcal.ops.probe_link.model import Fabric, Fabrics, Line
from roofcal.ops.time_models import Sources

MODEL = "wave"


def missing_description(device: str, specs: Mapping[str, DeviceSpec]) -> str:
    """What to say where a device of config/devices, or none of its name, has no section `wave`."""
    described = sorted(name for name, spec in specs.items() if spec.wave is not None)
    file = f"config/devices/{device}.yaml"
    nearest = did_you_mean(device, with_short_names(specs), otherwise=".")
    lack = f"{file} has no section 'wave'." if device in specs else f"there is no {file}{nearest}"
    return (
        f"{lack} The wave model knows {', '.join(described) or 'no device'}; "
        "describe another in its file there"
    )


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes of op gemm whose matrix rate the device's file lists."""
    rates = sources.wave.matrix_flops_per_clock if sources.wave else {}
    return tuple(name for name, recipe in GEMM_RECIPES.items() if recipe.math_dtype in rates)


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds of products; raises KeyError for a recipe whose rate the file lacks."""
    if sources.wave is None or recipe not in product_recipes(sources):
        raise KeyError(recipe)
    times = gemm_times(sources.wave, GEMM_RECIPES[recipe], m, n, k)
    return Times(total=times.total, bound_by=times.bound_by)


def fabrics(sources: Sources, world_size: int) -> Fabrics | None:
    """The described link, for NCCL and symmetric memory alike; None for too many devices."""
    device = sources.wave
    if device is None or world_size > device.link_ranks:
        return None
    line = Line(
        latency_s=device.link_latency_s * math.log2(world_size),
        bytes_per_s=used_bytes_per_s(device, world_size),
    )
    fabric = Fabric(
        library=line,
        direct=line,
        copy_latency_s=device.link_latency_s,
        dram_bytes_per_s=device.stream_bytes_per_s,
    )
    return Fabrics(likely=fabric)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per product whose recipe has a rate and per cast, in the order of the points."""
    device = sources.wave
    if device is None:
        return []
    computed = {point.point_id: BY_NAME[point.op].computes for point in points}
    products = [point for point in points if computed[point.point_id] == "product"]
    predictions: dict[str, Prediction] = {}
    for recipe in product_recipes(sources):
        of_recipe = [point for point in products if point.recipe == recipe]
        predictions |= {p.point_id: p for p in _products(of_recipe, recipe, device)}
    if "bf16" in device.matrix_flops_per_clock:
        narrow = [point for point in products if point.recipe in WEIGHT_ONLY_RECIPES]
        predictions |= {p.point_id: p for p in _narrow_products(narrow, device)}
    casts = [point for point in points if computed[point.point_id] == "cast"]
    predictions |= {point.point_id: _cast(point, device) for point in casts}
    return [predictions[p.point_id] for p in points if p.point_id in predictions]


def _products(points: Sequence[PlanPoint], recipe: str, device: WaveDevice) -> list[Prediction]:
    times = gemm_times(device, GEMM_RECIPES[recipe], *_product_sizes(points))
    return [_product(point, times, i) for i, point in enumerate(points)]


def _narrow_products(points: Sequence[PlanPoint], device: WaveDevice) -> list[Prediction]:
    """Products of packed weights: tiles of bf16, and fewer bytes."""
    moved = np.array([BY_NAME[p.op].work(p.recipe, p.shape).dram_bytes for p in points], float)
    times = narrow_product_times(device, moved, *_product_sizes(points))
    return [_product(point, times, i) for i, point in enumerate(points)]


def _product_sizes(points: Sequence[PlanPoint]) -> Iterator[Array]:
    """M, N and K of the points."""
    return (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")


def _product(point: PlanPoint, times: ProductTimes, i: int) -> Prediction:
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=float(times.tiles[i]),
        dram_s=float(times.dram[i]),
        link_s=None,
        launch_s=float(times.launch[i]),
        total_s=float(times.total[i]),
        bound_by=times.bound_by[i],
    )


def _cast(point: PlanPoint, device: WaveDevice) -> Prediction:
    moved = BY_NAME[point.op].work(point.recipe, point.shape).dram_bytes
    time = kernel_time(device, {"dram": stream_seconds(device, moved)})
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=None,
        dram_s=time.parts["dram"],
        link_s=None,
        launch_s=device.launch_s,
        total_s=time.total_s,
        bound_by=time.bound_by,
    )
