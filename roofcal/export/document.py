"""What `json` and `yaml` hold: the whole calibration, with where it comes from."""

from dataclasses import asdict
from typing import Any

from roofcal.export.rows import rows
from roofcal.export.subject import Subject


def document(subject: Subject, form: str) -> dict[str, Any]:
    """Plain mappings, lists, text and numbers in a fixed order; SI units.

    `constants` is a list of the rows of roofcal.export.rows; `probe_errors` are fractions of the
    measured time, on probes left out of the fit in turn.
    """
    found = subject.calibration
    errors = found.probe_errors
    return {
        "made_by": subject.command(form),
        "device": found.device,
        "environment_id": found.environment_id,
        "environment": asdict(subject.environment) if subject.environment else None,
        "probe_points": found.probe_points,
        "seed": found.seed,
        "constants": [asdict(row) for row in rows(dict(found.constants))],
        "probe_errors": {recipe: dict(sorted(errors[recipe].items())) for recipe in sorted(errors)},
    }
