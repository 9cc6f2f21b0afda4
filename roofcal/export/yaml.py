"""`yaml`: the whole calibration as one mapping, full precision, SI; see roofcal.export.document.

Nothing is dropped.
"""

import yaml

from roofcal.export.document import document
from roofcal.export.subject import Subject, comment

FORMAT = "yaml"
SUFFIX = "yaml"


def write(subject: Subject) -> str:
    """The mapping below comments that say where it comes from."""
    body = yaml.safe_dump(document(subject, FORMAT), sort_keys=False, allow_unicode=True, width=100)
    return comment(subject.provenance(FORMAT)) + str(body)
