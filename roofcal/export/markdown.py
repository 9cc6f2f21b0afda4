"""`markdown`: the table of constants to paste into an issue or a page, four digits.

Dropped: digits, and the errors of the fit. `csv`, `json` and `yaml` have full precision.
"""

from roofcal.export.rows import rows, shown
from roofcal.export.subject import Subject

FORMAT = "markdown"
SUFFIX = "md"
_HEAD = ("constant", "value", "95 % interval", "unit", "fitted on")


def write(subject: Subject) -> str:
    """A sentence on where it comes from, and the table."""
    found = subject.calibration
    head = (
        f"Calibrated constants of {found.device} in {found.environment_id}"
        f" ({found.probe_points} probe points, seed {found.seed}):"
        f" `{subject.command(FORMAT)}`"
    )
    lines = [head, "", _line(*_HEAD), "| --- | ---: | ---: | --- | --- |"]
    for row in rows(dict(found.constants)):
        cells = shown(row)
        lines.append(
            _line(f"`{cells.name}`", cells.value, cells.interval, cells.unit, cells.evidence)
        )
    return "\n".join(lines) + "\n"


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
