"""`json`: the whole calibration as one object, full precision, SI; see roofcal.export.document.

Nothing is dropped. A number that is not finite would be no JSON and is refused.
"""

import json

from roofcal.export.document import document
from roofcal.export.errors import ExportError
from roofcal.export.subject import Subject

FORMAT = "json"
SUFFIX = "json"


def write(subject: Subject) -> str:
    """The object; raises ExportError for a constant that is infinite or not a number."""
    try:
        text = json.dumps(document(subject, FORMAT), indent=2, allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise ExportError(
            "cannot hold infinite numbers, and a constant of this calibration is one; "
            "export yaml or csv"
        ) from None
    return text + "\n"
