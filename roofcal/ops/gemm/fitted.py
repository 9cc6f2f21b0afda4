"""Names of the fitted constants of products, and whose are meant where no provider is named.

Constants are called `gemm.<provider>.<recipe>.<constant>`. It stands in the op's layer because the
stages that write and read them may not import each other.
"""

from collections.abc import Mapping
from typing import Final

from roofcal.core.records import Ceiling

OP: Final = "gemm"
LIBRARIES: Final = ("cublaslt", "torch_cpu")  # what torch calls for a product, by backend
CEILING: Final = "ceiling_flops_per_s"
FAMILY: Final = "tile_family"


def pairs(constants: Mapping[str, Ceiling]) -> list[tuple[str, str]]:
    """(provider, recipe) of every product that was calibrated, in the order of the constants."""
    names = [name.split(".") for name in constants if name.startswith(f"{OP}.")]
    found = [tuple(n[1:3]) for n in names if len(n) == 4]
    return [(provider, recipe) for provider, recipe in dict.fromkeys(found)]


def providers(constants: Mapping[str, Ceiling], recipe: str) -> list[str]:
    """Providers whose products of a recipe were calibrated."""
    return [provider for provider, found in pairs(constants) if found == recipe]


def default_provider(constants: Mapping[str, Ceiling], recipe: str) -> str:
    """Whose products are meant where nobody is named: the library's, one of LIBRARIES.

    Where those of the library were not calibrated, the provider of the fastest probe. Raises
    KeyError for a recipe that was not calibrated.
    """
    known = providers(constants, recipe)
    if not known:
        raise KeyError(recipe)
    return next((name for name in LIBRARIES if name in known), _fastest(constants, recipe, known))


def _fastest(constants: Mapping[str, Ceiling], recipe: str, known: list[str]) -> str:
    names = {provider: f"{OP}.{provider}.{recipe}.{CEILING}" for provider in known}
    rates = {p: constants[name].value for p, name in names.items() if name in constants}
    return max(rates, key=lambda provider: rates[provider], default=known[0])


def old_names(constants: Mapping[str, Ceiling]) -> list[str]:
    """Constants `gemm.<recipe>.<constant>`, as they were called before providers had their own."""
    return [name for name in constants if name.startswith(f"{OP}.") and name.count(".") == 2]
