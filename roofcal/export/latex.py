r"""`latex`: the table of constants for a paper, four digits: \input{h200.tex}.

Needs \usepackage{booktabs} and \usepackage{longtable} (it is longer than a page). Dropped: what
each constant was fitted on (too wide for a page), digits, and the errors of the fit. `csv`, `json`
and `yaml` have everything.
"""

from typing import Final

from roofcal.export.rows import Row, rows, shown
from roofcal.export.subject import Subject, comment

FORMAT = "latex"
SUFFIX = "tex"
_SPECIAL: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_HEAD: Final = r"Constant & Value & 95\,\% interval & Unit \\"


def write(subject: Subject) -> str:
    """A longtable; comments say where it comes from."""
    found = subject.calibration
    caption = f"Calibrated constants of {found.device} in {found.environment_id}."
    lines = [
        r"\begin{longtable}{@{}lrrl@{}}",
        rf"\caption{{{escaped(caption)}}}\\",
        r"\toprule",
        _HEAD,
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        _HEAD,
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endfoot",
        *map(_line, rows(dict(found.constants))),
        r"\end{longtable}",
    ]
    needs = r"needs \usepackage{booktabs} and \usepackage{longtable}"
    return comment([*subject.provenance(FORMAT), needs], mark="%") + "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    cells = shown(row)
    unit = rf"\textmu {cells.unit[1:]}" if cells.unit.startswith("us") else escaped(cells.unit)
    name, value = rf"\texttt{{{escaped(cells.name)}}}", escaped(cells.value)
    return rf"{name} & {value} & {cells.interval.replace(' to ', '--')} & {unit} \\"


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_SPECIAL.get(character, character) for character in text)
