"""Products by calibrated constants `gemm.<provider>.<recipe>.*`; equations: the model beside.

A point without a provider is answered for the fastest provider that was calibrated. Vectors
(`product_times` of the models) without a provider are answered for one provider throughout,
`default_provider`: recipes that are compared by them then run in one library.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from roofcal.core.portable_math import exp, log
from roofcal.core.records import Calibration, Ceiling
from roofcal.core.times import Array, Times
from roofcal.ops.constants import (
    calibrated_pairs,
    calibrated_providers,
    decode_family,
    values_of_pair,
)
from roofcal.ops.gemm.model import (
    CEILING,
    CONSTANTS,
    FAMILIES,
    FAMILY,
    PackedFamily,
    Parts,
    describe,
    evaluate,
    interval_groups,
    joined,
)
from roofcal.ops.gemm.packed import packed_parts
from roofcal.ops.gemm.spec import OP
from roofcal.ops.predictions import (
    Answer,
    PairShapes,
    interval_factors,
    predict_fastest,
    with_interval,
)

LIBRARIES: Final = ("cublaslt", "torch_cpu")  # what torch calls for a product, by backend
_CHUNK: Final = 128  # shapes at once, 250 choices of tile and split each: fits a 256 KiB cache


def calibrated_recipes(calibration: Calibration) -> list[str]:
    """Recipes of products a calibration has constants of, by any provider."""
    pairs = calibrated_pairs(calibration.constants, OP.name)
    return list(dict.fromkeys(recipe for _, recipe in pairs))


def default_provider(constants: Mapping[str, Ceiling], recipe: str) -> str:
    """The provider that is meant where none is named: the library's, one of LIBRARIES.

    Where the library was not calibrated, the provider of the fastest probe. Raises KeyError for a
    recipe that was not calibrated.
    """
    providers = calibrated_providers(constants, OP.name, recipe)
    if not providers:
        raise KeyError(recipe)
    library = next((name for name in LIBRARIES if name in providers), None)
    names = {provider: f"{OP.name}.{provider}.{recipe}.{CEILING}" for provider in providers}
    rates = {p: constants[name].value for p, name in names.items() if name in constants}
    return library or max(rates, key=lambda provider: rates[provider], default=providers[0])


def product_times(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Times:
    """Seconds of products of sizes (m, n, k) with intervals; KeyError for a pair not calibrated."""
    return _answer(calibration, provider, recipe, sizes).times


def product_parts(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Parts:
    """Parts of products of sizes (m, n, k); raises KeyError for a pair that was not calibrated."""
    constants = calibration.constants
    values = values_of_pair(constants, f"{OP.name}.{provider}.{recipe}", (FAMILY, *CONSTANTS))
    family = decode_family(FAMILIES, values.pop(FAMILY))
    return parts_of_family(values, family, recipe, sizes, int(constants["compute_units"].value))


def parts_of_family(
    values: Mapping[str, float],
    family: str,
    recipe: str,
    sizes: Sequence[Array],
    compute_units: int,
) -> Parts:
    """Parts of products of sizes (m, n, k) by the equation of a family with these constants."""
    m, n, k = sizes
    if isinstance(FAMILIES[family], PackedFamily):
        return packed_parts(values, recipe, (m, n, k), compute_units)
    chunks = [
        evaluate(values, describe(recipe, m[s], n[s], k[s], family, compute_units), family)
        for s in (slice(i, i + _CHUNK) for i in range(0, max(1, len(m)), _CHUNK))
    ]
    return Parts(**{f: np.concatenate([getattr(c, f) for c in chunks]) for f in Parts.__slots__})


def product_factors(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Array:
    """The factor of the interval of each product of sizes (m, n, k) as inside of the probes."""
    name = f"{OP.name}.{provider}.{recipe}"
    return interval_factors(calibration, name, groups_of(recipe, sizes))


def groups_of(recipe: str, sizes: Sequence[Array]) -> list[str]:
    """The group of each product, of GROUPS, whose errors make its interval."""
    return interval_groups(recipe, *sizes)


def fastest_times(
    calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]
) -> Array:
    """The low end of the interval where a card may rest between products, s.

    It then runs below its power limit, which the probes of products were held to. How far it rests
    and how far the model is off are independent, so their logarithms add as squares (Zou and
    Donner, Statistics in Medicine 27, 2008).
    """
    parts = product_parts(calibration, provider, recipe, sizes)
    unlimited = joined(
        launch=parts.launch,
        tiles=parts.tiles,
        sums=parts.sums,
        dram=parts.dram,
        power=np.zeros_like(parts.power),
    ).total
    # Equations of processors know no power limit, and join their parts in another way.
    unlimited = np.where(parts.power > 0, unlimited, parts.total)
    resting = log(parts.total / unlimited)
    error = log(product_factors(calibration, provider, recipe, sizes))
    fastest: Array = parts.total / exp(np.sqrt(resting**2 + error**2))
    return fastest


def _answer(calibration: Calibration, provider: str, recipe: str, sizes: Sequence[Array]) -> Answer:
    parts = product_parts(calibration, provider, recipe, sizes)
    groups = groups_of(recipe, sizes)
    asked = PairShapes(provider=provider, recipe=recipe, sizes=sizes, groups=groups)
    times = Times(total=parts.total, bound_by=parts.bound_by)
    return Answer(
        times=with_interval(times, calibration, OP, asked),
        parts={
            "math_s": np.maximum(parts.tiles, parts.power),
            "dram_s": parts.dram,
            "launch_s": parts.launch + parts.sums,
        },
    )


predict_calibrated = partial(predict_fastest, op=OP, answer=_answer)
