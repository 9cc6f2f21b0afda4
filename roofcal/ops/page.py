"""What the report shows of one op alone: words, colours, and what its constants mean.

`roofcal/ops/<op>/page.py` declares `PAGE`. It is plain data: neither pandas nor matplotlib. Every
field has a default, so that an op without such a file is reported too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofcal.ops.constant import Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPage:
    """What the report shows of one op.

    meaning             what it computes, for the glossary: `gemm` is C = A B; "" leaves it out
    title               the same as a heading has it; "" for the name of the op
    time_includes       a sentence on what a time of the op includes, for captions of its figures
    time_note           the same in two words, for headings: "with casts", "whole block"
    is_headline         whether the first page is about this op: one op of the study is
    health              whether its times tell a healthy card from a slow one
    library_providers   providers whose error stands for the op where one number has to; the first
                        that was measured counts, all providers where none is named
    colours             recipe -> name of its colour, see roofcal.report.kit.styles.COLOURS
    markers             provider -> its marker in figures, as matplotlib names it
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
