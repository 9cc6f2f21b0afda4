"""What the model.py of an op declares, and how calibrations name its constants and equations.

A constant is declared once: its fit, calibration, exports and pages read it. Those that an op fits
per provider and recipe are called `<op>.<provider>.<recipe>.<constant>`, those of the device have
no dots, those of links are `link.<collective>.<world size>.<constant>`.

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
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal, NamedTuple

from roofcal.core.records import CODE, Calibration, Ceiling
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.spec import OpSpec

Part = Literal["model", "fit"]
_PARTS_OF_A_NAME: Final = 4
NO_LIMIT: Final = 1e30  # a rate that leaves a part of an equation out


class Search(NamedTuple):
    """The start and the bounds of a fit; of: the quantity of the probes that is their unit.

    "" for none. Which quantities there are is said by the fit.
    """

    start: float
    least: float
    most: float
    of: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant as its model, its fit and the report need it; fitted ones are above zero.

    label      what it is, for a reader
    search     of its fit; None for what is not searched, or where the fit alone can say
    on_cpu     of its fit on a processor, where that differs
    neutral    the value that has no effect, for recipes or probes without it; None where the
               equation cannot do without it
    group      of constants that are fitted together, or belong to one kind of kernel
    datasheet  figure of the datasheet that it compares with: a field of DeviceSpec, or "peak" for
               the rate of the recipe's number format; None where the datasheet has no such figure
    headline   whether it stands in the first table of constants
    """

    name: str
    unit: str
    label: str
    search: Search | None = None
    neutral: float | None = None
    group: str = ""
    on_cpu: Search | None = None
    datasheet: str | None = None
    headline: bool = False


def by_name(*constants: Constant) -> dict[str, Constant]:
    """Name -> constant, in the order given."""
    return {constant.name: constant for constant in constants}


def neutral_values(constants: Mapping[str, Constant]) -> dict[str, float]:
    """Name -> the value that leaves a constant out, of those that can be left out."""
    return {name: c.neutral for name, c in constants.items() if c.neutral is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPage:
    """What the report shows of one op, `PAGE` of its model: plain data, and all of it optional.

    A probe that shares the folder of an op has its own page there, `PROBE_PAGE`.

    meaning             what it computes, for the glossary: `gemm` is C = A B; "" leaves it out
    title               the same as a heading has it; "" for the name of the op
    time_includes       a sentence on what a time of the op includes, for captions of its figures
    time_note           the same in two words, for headings: "with casts", "whole block, with casts"
    is_headline         whether the first page is about this op: one op of the study is
    health              whether its times tell a healthy card from a slow one
    library_providers   providers whose error stands for the op where one number has to; the first
                        that was measured counts, all providers where none is named
    colours             recipe -> name of its colour, see roofcal.report.kit.charts.COLOURS
    markers             provider -> its marker, a key of PATHS in roofcal/report/kit/vega.py
    constants_prefix    first part of the names of its constants; None for the name of the op, ""
                        for constants of the device, which have no such part
    constants           constant -> what it is, in the order of the table
    """

    meaning: str = ""
    title: str = ""
    time_includes: str = ""
    time_note: str = ""
    is_headline: bool = False
    health: bool = False
    library_providers: tuple[str, ...] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)
    constants_prefix: str | None = None
    constants: Mapping[str, Constant] = field(default_factory=dict)


def load_part(op: OpSpec, part: Part) -> ModuleType | None:
    """The module `roofcal/ops/<folder>/<part>.py` of an op; None where its folder has none.

    model  its PAGE and its equation. The equation is OP, FAMILY, FAMILIES, CONSTANTS, GROUPS,
           evaluate(constants, family, recipe, sizes, units) -> roofcal.ops.predictions.Parts, and
           groups_of(recipe, sizes) -> the group of each shape, a key of GROUPS; the errors of
           probes of this group make the interval of its prediction. An op that is made of others
           has `predict_composed` instead. An op has `predict_calibrated` too where some of its
           points are those of another op
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
        if calibration.equations.get(op, 0) != number
        and any(name.startswith(f"{op}.") for name in calibration.constants)
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
