"""`csv`: the table of constants for spreadsheets and data frames, full precision, SI.

One header and one row per constant: device, environment_id, then the columns of
roofcal.export.rows. CSV has no comments, so each row says whose it is. Nothing is dropped but the
errors of the fit (`json` and `yaml` have them).
"""

import csv
import io
from dataclasses import astuple

from roofcal.export.rows import COLUMNS, rows
from roofcal.export.subject import Subject

FORMAT = "csv"
SUFFIX = "csv"


def write(subject: Subject) -> str:
    """The table; floats as Python prints them, which reads back to the same bits."""
    found = subject.calibration
    whose = (found.device, found.environment_id)
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(("device", "environment_id", *COLUMNS))
    table.writerows((*whose, *astuple(row)) for row in rows(dict(found.constants)))
    return stream.getvalue()
