"""Names of calibrated constants, and families as the numbers that stand for them.

Constants that an op fits per provider and recipe are called `<op>.<provider>.<recipe>.<constant>`,
those of the device have no dots, those of links are `link.<collective>.<world size>.<constant>`.

The model of an op that chooses among families declares them as `FAMILIES`, and in `FAMILY` the name
of the constant that holds the choice. Its value is the place in FAMILIES, and its unit is "code":
new families go to the end.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final

from roofcal.core.records import CODE, Ceiling
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.parts import load_part

_PARTS_OF_A_NAME: Final = 4


def decode_family(families: Iterable[str], number: float) -> str:
    """The family that a constant's value stands for; IndexError for one beyond the declared."""
    return list(families)[int(number)]


def family_of_constant(name: str, constant: Ceiling) -> str | None:
    """The family that a constant of any op stands for, by the families of the op in its name.

    None for a constant of another unit, and for a number that this roofcal has no family for.
    """
    op = BY_NAME.get(name.partition(".")[0])
    model = load_part(op, "model") if op and constant.unit == CODE else None
    families: list[str] = list(getattr(model, "FAMILIES", ()))
    number = int(constant.value)
    return families[number] if 0 <= number < len(families) else None


def calibrated_pairs(constants: Iterable[str], op: str) -> list[tuple[str, str]]:
    """(provider, recipe) that an op was calibrated for, in the order of the constants."""
    return list(_pairs_in(tuple(constants), op))


@cache  # the tables of language models ask 21,500 times: splitting the names took a third of 6 s
def _pairs_in(constants: tuple[str, ...], op: str) -> tuple[tuple[str, str], ...]:
    names = [name.split(".") for name in constants if name.startswith(f"{op}.")]
    pairs = [(name[1], name[2]) for name in names if len(name) == _PARTS_OF_A_NAME]
    return tuple(dict.fromkeys(pairs))


def calibrated_providers(constants: Iterable[str], op: str, recipe: str) -> list[str]:
    """Providers that an op was calibrated for in a recipe, in the order of the constants."""
    pairs = calibrated_pairs(constants, op)
    return [provider for provider, calibrated in pairs if calibrated == recipe]


def names_without_provider(constants: Iterable[str]) -> list[str]:
    """Constants `<op>.<recipe>.<constant>`, as they were called before providers had their own."""
    ops = {op.folder for op in OPS if op.role == "study"}
    return [name for name in constants if name.count(".") == 2 and name.split(".")[0] in ops]


def missing_constants(constants: Collection[str]) -> list[str]:
    """Constants that the models of ops require of every calibrated pair, and that are not there.

    An older roofcal fitted such a calibration: its equations had fewer constants.
    """
    names = set(constants)
    missing = []
    for op in OPS:
        model = load_part(op, "model") if op.role == "study" else None
        for provider, recipe in calibrated_pairs(constants, op.name):
            prefix = f"{op.name}.{provider}.{recipe}"
            required = [f"{prefix}.{constant}" for constant in getattr(model, "REQUIRED", ())]
            missing += [name for name in required if name not in names]
    return missing


def values_of_pair(
    constants: Mapping[str, Ceiling], name: str, last_parts: Iterable[str]
) -> dict[str, float]:
    """Last part of a constant's name -> value, of "<op>.<provider>.<recipe>".

    last_parts: those to look for; the ones that were not fitted are left out. Raises KeyError where
    none was fitted.
    """
    values = {
        constant: constants[f"{name}.{constant}"].value
        for constant in last_parts
        if f"{name}.{constant}" in constants
    }
    if not values:
        raise KeyError(name)
    return values
