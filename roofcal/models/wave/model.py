"""The wave model of products and casts: a device description in, seconds out, nothing fitted.

A product is that of roofcal.models.wave.gemm. A cast is a kernel that memory bounds:

    t = launch + bytes / achieved bandwidth

A product whose weights have fewer bits than its activations (op mixed_gemm) has the tiles and waves
of bf16, bound by their arithmetic alone, and other bytes: packed weights, scales, zero points,
activations and output over the same bandwidth. Caches and turning weights to bf16 are not modelled.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import did_you_mean
from roofcal.core.recipes import GEMM_RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.core.wave_device import WaveDevice
from roofcal.models.sources import Sources
from roofcal.models.wave.gemm import ProductTimes
from roofcal.models.wave.gemm import product_times as gemm_times
from roofcal.models.wave.operator_time import kernel_time, stream_seconds
from roofcal.ops import BY_NAME

MODEL = "wave"


def missing_description(device: str, specs: Mapping[str, DeviceSpec]) -> str:
    """What to say where a device of config/devices, or none of its name, has no section `wave`."""
    described = sorted(name for name, spec in specs.items() if spec.wave is not None)
    file = f"config/devices/{device}.yaml"
    nearest = did_you_mean(device, specs, otherwise=".")
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
    found = gemm_times(sources.wave, GEMM_RECIPES[recipe], m, n, k)
    return Times(total=found.total, bound_by=found.bound_by)


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per product of a recipe it knows and per cast, in the order of the points."""
    device = sources.wave
    if device is None:
        return []
    found: dict[str, Prediction] = {}
    for recipe in product_recipes(sources):
        some = [p for p in points if p.op in ("gemm", "mixed_gemm") and p.recipe == recipe]
        found |= {p.point_id: p for p in _products(some, recipe, device)}
    if "bf16" in product_recipes(sources):
        narrow = [p for p in points if p.recipe in WEIGHT_ONLY_RECIPES]
        arithmetic = replace(device, l2_read_bytes_per_clock=math.inf, lds_bytes_per_clock=math.inf)
        found |= {p.point_id: p for p in _products(narrow, "bf16", arithmetic)}
    found |= {p.point_id: _cast(p, device) for p in points if p.op == "cast"}
    return [found[p.point_id] for p in points if p.point_id in found]


def _products(points: Sequence[PlanPoint], recipe: str, device: WaveDevice) -> list[Prediction]:
    if not points:
        return []
    m, n, k = (np.array([float(p.shape[axis]) for p in points]) for axis in "mnk")
    times = gemm_times(device, GEMM_RECIPES[recipe], m, n, k)
    if points[0].recipe in WEIGHT_ONLY_RECIPES:
        moved = [BY_NAME[p.op].work(p.recipe, p.shape).dram_bytes for p in points]
        rate = device.stream_bytes_per_s * device.product_memory_fraction
        times = replace(times, dram=np.array(moved) / rate)
    return [_product(point, times, i) for i, point in enumerate(points)]


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
    found = kernel_time(device, {"dram": stream_seconds(device, moved)})
    return Prediction(
        point_id=point.point_id,
        model=MODEL,
        math_s=None,
        dram_s=found.parts["dram"],
        link_s=None,
        launch_s=device.launch_s,
        total_s=found.total_s,
        bound_by=found.bound_by,
    )
