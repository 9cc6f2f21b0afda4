"""The wave model of products and casts: a device description in, seconds out, nothing fitted.

Products are those of roofcal.models.wave.gemm. A cast is a kernel that memory bounds:

    t = launch + bytes / achieved bandwidth

A product whose weights have fewer bits than its activations has the tiles and waves of bf16, bound
by arithmetic alone, and its own bytes: packed weights, scales, zero points, activations and output.
Neither the caches nor the conversion of weights to bf16 are modelled.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.names import did_you_mean, with_short_names
from roofcal.core.recipes import GEMM_RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models.wave.gemm import narrow_product_times
from roofcal.models.wave.gemm import product_times as gemm_times
from roofcal.models.wave.operators import used_bytes_per_s
from roofcal.ops import BY_NAME
from roofcal.ops.predictions import TimesAndParts, least_bytes_of, predict_groups, sizes_of
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
    device, known = sources.wave, product_recipes(sources)
    if device is None:
        return []

    def answer(_: str, members: Sequence[PlanPoint]) -> TimesAndParts | None:
        op, recipe = BY_NAME[members[0].op], members[0].recipe
        if op.computes == "cast":
            dram = least_bytes_of(op, recipe, members) / device.stream_bytes_per_s
            launch = np.full_like(dram, device.launch_s)
            bound_by = np.where(dram > launch, "dram", "launch").tolist()
            times = Times(total=launch + dram, bound_by=bound_by)
            return TimesAndParts(times, {"dram_s": dram, "launch_s": launch})
        sizes = sizes_of(members, op.axes)
        if op.computes == "product" and recipe in known:
            product = gemm_times(device, GEMM_RECIPES[recipe], *sizes)
        elif op.computes == "product" and recipe in WEIGHT_ONLY_RECIPES and "bf16" in known:
            product = narrow_product_times(device, least_bytes_of(op, recipe, members), *sizes)
        else:
            return None
        times = Times(total=product.total, bound_by=product.bound_by)
        return TimesAndParts(
            times, {"math_s": product.tiles, "dram_s": product.dram, "launch_s": product.launch}
        )

    return predict_groups(points, MODEL, lambda _: ("",), answer)
