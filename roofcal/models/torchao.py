"""torchao's roofline as a model of time: the products and casts of a plan. See docs/models.md.

    t = max(2 M K N / peak / f_math, bytes / bandwidth / f_dram, 2 us)      C[M,N] = A[M,K] @ B[K,N]
    bytes = (M K + K N + scales) * operand + 2 M N
    scales = (M K + K N) // block    for MX and NVFP4, else 0
    t(kernel of a cast) = max(bytes / bandwidth / f_dram, 2 us)

Nothing overlaps: the times of all kernels are added. SETS holds torchao's own figures of devices by
name. A plan takes the peaks and the bandwidth of the device's own datasheet, and the fractions of
torchao-2025 for its vendor, because torchao lists few devices and its H100 is a custom board. Its
products have no scales of blocks, and it casts a tensor once, where a training linear casts it for
both passes (roofcal.models.torchao_formulas).

torchao has no model of weights in fewer bits than the activations. Such products get its fractions
and its shortest kernel: arithmetic at the bf16 rate, and the bytes of packed weights, scales, zero
points, activations and output. The conversion of weights to bf16 is not modelled.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from roofcal.core.devices import DeviceSpec
from roofcal.core.recipes import GEMM_RECIPES, RECIPES, WEIGHT_ONLY_RECIPES
from roofcal.core.records import PlanPoint, Prediction
from roofcal.core.times import Array, Times
from roofcal.models.errors import PredictError
from roofcal.ops import BY_NAME
from roofcal.ops.predictions import TimesAndParts, least_bytes_of, predict_groups, sizes_of
from roofcal.ops.time_models import Sources

MODEL = "torchao"
_FORMATS: Final = {"bf16": "bf16", "fp8_e4m3": "fp8"}  # our dtype of an operand -> torchao's
# Bytes per element of each kernel of a cast: bf16 is 2, fp8 is 1. dim1 first writes a transposed
# bf16 copy; `both` writes that copy beside the dim0 cast. Blocks take one kernel with fp32 scales.
_CAST_KERNELS: Final = {
    "fp8_tensorwise": (2, 0, 3),
    "fp8_rowwise_dim0": (3,),
    "fp8_rowwise_dim1": (4, 3),
    "fp8_rowwise_both": (5, 3),
    "fp8_blockwise_1x128": (3 + 4 / 128,),
    "fp8_blockwise_1x128_dim1": (3 + 4 / 128,),
    "fp8_blockwise_128x128": (3 + 4 / 128**2,),
}
BYTES: Final[dict[str, float]] = {"bf16": 2, "fp8": 1, "fp4": 0.5}
_OUT_BYTES: Final = 2  # bf16
LAUNCH_S: Final = 2e-6  # a kernel of one element, measured on an H100; a floor under every kernel
DATASHEET: Final = "datasheet"


class Constants(NamedTuple):
    """A device as torchao sees it.

    name               the set of constants
    peak_flops_per_s   dense rate by format of the operands: bf16, fp8, fp4
    math_fraction      of the peak that a large product reaches
    dram_fraction      of the bandwidth that a large pointwise kernel reaches
    """

    name: str
    device: str
    peak_flops_per_s: Mapping[str, float]
    dram_bytes_per_s: float
    math_fraction: float
    dram_fraction: float
    launch_s: float = LAUNCH_S


_HOPPER: Final = {"bf16": 989e12, "fp8": 1979e12}
_BLACKWELL: Final = {"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9.0e15}
_BLACKWELL_ULTRA: Final = {"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 14e15}
_CDNA3: Final = {"bf16": 1307e12, "fp8": 2614e12}
_B200_BY_CLOCK: Final = 7680 / 8 * 3.996e9 * 2  # bits / 8 x clock x 2 transfers: 7.672 TB/s

# set -> device -> peaks, bandwidth, fraction of the peak, fraction of the bandwidth
_ROWS: Final = {
    "torchao-2025": {
        "nvidia-h100-sxm": (_HOPPER, 2.4e12, 0.78, 0.92),
        "nvidia-b200": (_BLACKWELL, 8.0e12, 0.78, 0.92),
        "amd-mi300x": (_CDNA3, 5.3e12, 0.47, 0.72),
    },
    "torchao-0.18.0": {
        "nvidia-h100-sxm": (_HOPPER, 2.4e12, 0.78, 0.92),
        "nvidia-b200": (_BLACKWELL, _B200_BY_CLOCK, 0.78, 0.92),
        "nvidia-b300": (_BLACKWELL_ULTRA, 8.0e12, 0.82, 0.84),
        "nvidia-gb200": (_BLACKWELL, 8.0e12, 0.78, 0.92),
        "amd-mi300x": (_CDNA3, 5.3e12, 0.78, 0.92),
    },
}
_VENDOR_FRACTIONS: Final = {"nvidia": (0.78, 0.92), "amd": (0.47, 0.72)}

SETS: Final[dict[str, dict[str, Constants]]] = {
    name: {device: Constants(name, device, *row) for device, row in rows.items()}
    for name, rows in _ROWS.items()
}


def product_recipes(sources: Sources) -> tuple[str, ...]:
    """Recipes in bf16 and fp8 whose rate the datasheet lists."""
    rates = sources.spec.peak_flops_per_s if sources.spec else {}
    return tuple(name for name in GEMM_RECIPES if _operand_format(name) in rates)


def product_times(sources: Sources, recipe: str, m: Array, n: Array, k: Array) -> Times:
    """Seconds of products; raises KeyError for a recipe that it has no rate of."""
    if sources.spec is None or recipe not in product_recipes(sources):
        raise KeyError(recipe)
    constants = from_datasheet(sources.spec)
    parts = product_parts(constants, _operand_format(recipe), None, (m, k, n))
    return _longest(constants, *parts).times


def predict(points: Sequence[PlanPoint], sources: Sources) -> list[Prediction]:
    """A prediction per product or cast in bf16 or fp8; none without a datasheet."""
    if sources.spec is None:
        return []
    constants = from_datasheet(sources.spec)
    return predict_groups(
        points, MODEL, lambda _: ("",), lambda _, members: times_of_points(constants, members)
    )


def times_of_points(constants: Constants, points: Sequence[PlanPoint]) -> TimesAndParts | None:
    """Seconds of points of one op and recipe; None for what torchao does not model."""
    op, recipe, rates = BY_NAME[points[0].op], points[0].recipe, constants.peak_flops_per_s
    if op.computes == "cast" and recipe in _CAST_KERNELS:
        rows, cols = sizes_of(points, op.axes)
        kernels = (traffic_s(constants, w * (rows * cols)) for w in _CAST_KERNELS[recipe])
        total = sum(np.maximum(seconds, constants.launch_s) for seconds in kernels)
        return _longest(constants, np.zeros_like(rows), total)
    if op.computes != "product":
        return None
    m, n, k = sizes_of(points, op.axes)
    if recipe in WEIGHT_ONLY_RECIPES and RECIPES[recipe].math_dtype in rates:
        rate = rates[str(RECIPES[recipe].math_dtype)]
        math = 2.0 * m * n * k / rate / constants.math_fraction
        dram = traffic_s(constants, least_bytes_of(op, recipe, points))
    elif _operand_format(recipe) in rates:
        math, dram = product_parts(constants, _operand_format(recipe), None, (m, k, n))
    else:
        return None
    return _longest(constants, math, dram)


def _operand_format(recipe: str) -> str:
    """torchao's name of the format of both operands, "" for formats that it does not model."""
    a, b, out = RECIPES[recipe].a.dtype, RECIPES[recipe].b.dtype, RECIPES[recipe].out
    return _FORMATS.get(a, "") if a == b and out == "bf16" else ""


def _longest(constants: Constants, math: Array, dram: Array) -> TimesAndParts:
    """The longest of parts that overlap entirely, of which the shortest kernel is one."""
    launch = np.full_like(math, constants.launch_s)
    stacked, names = np.stack([math, dram, launch]), ("math", "dram", "launch")
    bound_by = [names[index] for index in stacked.argmax(axis=0)]
    times = Times(total=stacked.max(axis=0), bound_by=bound_by)
    return TimesAndParts(times, {"math_s": math, "dram_s": dram, "launch_s": launch})


def from_datasheet(spec: DeviceSpec) -> Constants:
    """The constants of a device that torchao does not list."""
    rates = spec.peak_flops_per_s
    peaks = {dtype: rates[dtype] for dtype in BYTES if dtype in rates}
    fractions = _VENDOR_FRACTIONS[spec.vendor]
    return Constants(DATASHEET, spec.device, peaks, spec.dram_bytes_per_s, *fractions)


def product_parts(
    constants: Constants, operand: str, block: int | None, sizes: tuple[Any, Any, Any]
) -> tuple[Any, Any]:
    """Seconds of arithmetic and of memory traffic of C[M,N] = A[M,K] @ B[K,N]; sizes: (M, K, N).

    Numbers, vectors (float64, because products of three sizes leave int64) or symbols. block:
    elements per scale, None where scales are not counted. Raises PredictError without a rate.
    """
    m, k, n = sizes
    rate = constants.peak_flops_per_s.get(operand)
    if rate is None:
        rates = ", ".join(constants.peak_flops_per_s)
        raise PredictError(
            f"torchao: {constants.name} has no {operand} rate of {constants.device}; it has {rates}"
        )
    read = m * k + k * n
    if block is not None:
        read = read + read // block
    math = 2 * m * k * n / rate / constants.math_fraction
    return math, traffic_s(constants, BYTES[operand] * read + _OUT_BYTES * (m * n))


def traffic_s(constants: Constants, moved: Any) -> Any:
    """Seconds of moving `moved` bytes at the achievable bandwidth."""
    return moved / constants.dram_bytes_per_s / constants.dram_fraction
