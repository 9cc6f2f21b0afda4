"""config/priors/<architecture>.jsonl: what measured cards of an architecture say of others.

The file holds the published cards, each calibrated without any prior and stated as fractions
(roofcal.ops.priors), and one record of the architecture itself: how far cards lie from what the
others say of them. `python -m tools.write_priors` makes it from publications.
"""

from pathlib import Path
from typing import Final

from roofcal.core import paths
from roofcal.core.devices import DeviceSpec
from roofcal.core.jsonl import read_records
from roofcal.core.records import Calibration

BETWEEN: Final = "between-cards"  # the environment of the record of an architecture


def cards_like(spec: DeviceSpec | None) -> list[Calibration]:
    """The records of a device's architecture, `cards` of roofcal.ops.priors.

    None without a datasheet, or for an architecture of which no card is published. Raises
    RecordsError for a bad file.
    """
    file = priors_file(spec) if spec else None
    return read_records(file, Calibration) if file and file.is_file() else []


def priors_file(spec: DeviceSpec) -> Path:
    """The file of a device's architecture, whether it exists or not."""
    return paths.PRIORS / f"{spec.architecture}.jsonl"
