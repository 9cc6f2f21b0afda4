"""How calibrations name the constants of ops, number their families and number their equations.

Constants that an op fits per provider and recipe are called `<op>.<provider>.<recipe>.<constant>`,
those of the device have no dots, those of links are `link.<collective>.<world size>.<constant>`.

The model of an op that chooses among families declares them as `FAMILIES`, and in `FAMILY` the name
of the constant that holds the choice. Its value is the place in FAMILIES, and its unit is "code":
new families go to the end.

The equation of an op has a number, `EQUATION` in its model, and a calibration states those it was
fitted with. Raise the number whenever the equation gives another time for the same constants:
constants fitted under one equation are wrong under another.

model.py and fit.py of an op's folder are found by their names, for two reasons: one line in
roofcal.ops.FOLDERS adds an op, and the fits stay out of the files that decide what is measured
again. roofcal/study/staleness.py knows which stage depends on which parts. A bench needs torch and
is found by roofcal.ops.bench.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal

from roofcal.core.records import CODE, Calibration, Ceiling
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.spec import OpSpec

Part = Literal["model", "fit"]
_PARTS_OF_A_NAME: Final = 4


def load_part(op: OpSpec, part: Part) -> ModuleType | None:
    """The module `roofcal/ops/<folder>/<part>.py` of an op; None where its folder has none.

    model  its equation, the families of its constants, its page, and from constants to predictions
           `predict_calibrated` of an op that was calibrated, `predict_composed` of one that is made
           of others
    fit    probes -> constants: roofcal.fitting.probes.FitPart
    """
    name = f"roofcal.ops.{op.folder}.{part}"
    return import_module(name) if find_spec(name) else None


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
    ops = {op.name for op in STUDY_OPS}
    return [name for name in constants if name.count(".") == 2 and name.split(".")[0] in ops]


def missing_constants(constants: Collection[str]) -> list[str]:
    """Constants that the models of ops need for every calibrated pair and that are missing.

    An older roofcal fitted such a calibration: its equations had fewer constants.
    """
    required = (
        f"{op.name}.{provider}.{recipe}.{constant}"
        for op in STUDY_OPS
        for provider, recipe in calibrated_pairs(constants, op.name)
        for constant in getattr(load_part(op, "model"), "REQUIRED", ())
    )
    return [name for name in required if name not in constants]


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


def current_equations() -> dict[str, int]:
    """Op -> number of its equation in this roofcal, of ops that have one."""
    numbers = {op.name: getattr(load_part(op, "model"), "EQUATION", None) for op in STUDY_OPS}
    return {name: number for name, number in numbers.items() if number is not None}


def other_equations(calibration: Calibration) -> dict[str, tuple[int, int]]:
    """Op -> (number in the calibration, number here), of those that differ.

    0 stands for calibrations from before equations had numbers.
    """
    return {
        op: (calibration.equations.get(op, 0), number)
        for op, number in current_equations().items()
        if calibrated_pairs(calibration.constants, op)
        and calibration.equations.get(op, 0) != number
    }


def predicted_with(ops: Collection[str]) -> frozenset[str]:
    """Ops whose calibrated predictions read constants of these: themselves, and those made of them.

    Op mixed_gemm counts as a whole, although only its contenders in bf16 and fp8 are products of op
    gemm: its other points are compared with those.
    """
    return frozenset(
        op.name
        for op in STUDY_OPS
        if not {op.name, *(BY_NAME[p].calibrates for p in op.calibrated_on)}.isdisjoint(ops)
    )
