"""Names of the fitted constants of products with narrow weights, and their times.

Constants are called `mixed_gemm.<provider>.<recipe>.<constant>`. It stands in the op's layer
because the stages that write and read them may not import each other.
"""

from collections.abc import Mapping
from typing import Final

from roofcal.core.records import Ceiling
from roofcal.ops.mixed_gemm.model import BY_CODE, Array, Parts, constants_of, evaluate

OP: Final = "mixed_gemm"
FAMILY: Final = "narrow_family"
_UNITS: Final = "compute_units"


def pairs(constants: Mapping[str, Ceiling]) -> list[tuple[str, str]]:
    """(provider, recipe) of the narrow weights that were calibrated, in the order of constants."""
    names = [name.split(".") for name in constants if name.startswith(f"{OP}.")]
    return [(name[1], name[2]) for name in names if name[3:] == [FAMILY]]


def parts(
    constants: Mapping[str, Ceiling], provider: str, recipe: str, sizes: tuple[Array, Array, Array]
) -> Parts:
    """Seconds of products of sizes (m, n, k), vectors; KeyError for a pair not calibrated."""
    prefix = f"{OP}.{provider}.{recipe}."
    family = BY_CODE[int(constants[prefix + FAMILY].value)]
    known = {name: constants[prefix + name].value for name in constants_of(family)}
    return evaluate(known, family, int(constants[_UNITS].value), recipe, sizes)
