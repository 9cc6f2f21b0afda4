"""What the model.py of an op declares: its constants, and what the report says of the op.

A constant is declared once: its fit, calibration, exports and pages read it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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


def search_ranges(
    constants: Iterable[Constant], quantities: Mapping[str, tuple[float, float]], *, on_cpu: bool
) -> dict[str, tuple[float, float, float]]:
    """Name -> (start, least, most) of the constants that are searched.

    quantities: by the names of Search.of, as (a, b) for a / b: only then are values that a fit
    starts from the same to the last bit, however a declaration counts them.
    """
    ranges = {}
    for constant in constants:
        search = (on_cpu and constant.on_cpu) or constant.search
        if search and (search.of in quantities or not search.of):
            above, below = quantities.get(search.of, (1.0, 1.0))
            start, least, most = (value * above / below for value in search[:3])
            ranges[constant.name] = (start, least, most)
    return ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPage:
    """What the report shows of one op, `PAGE` of its model: plain data, and all of it optional.

    A probe that shares the folder of an op has its own page there, `PROBE_PAGE`.

    meaning             what it computes, for the glossary: `gemm` is C = A B; "" leaves it out
    title               the same as a heading has it; "" for the name of the op
    time_includes       a sentence on what a time of the op includes, for captions of its figures
    time_note           the same in two words, for headings: "with casts", "whole block"
    is_headline         whether the first page is about this op: one op of the study is
    health              whether its times tell a healthy card from a slow one
    library_providers   providers whose error stands for the op where one number has to; the first
                        that was measured counts, all providers where none is named
    colours             recipe -> name of its colour, see roofcal.report.kit.styles.COLOURS
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
