"""Names of environments: their order, and models calibrated in one that predict another.

A device that was measured in several environments (another driver, another torch) has a calibration
of each. What the constants of environment E1 predict for the points of E2 is the model
`calibrated@E1` of E2, beside `calibrated`, whose constants are those of E2 itself.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

CALIBRATED: Final = "calibrated"
_PREFIX: Final = f"{CALIBRATED}@"


def version_key(environment_id: str) -> list[tuple[int, str]]:
    """Sorts torch2.11 after torch2.9: numbers by value, what is between them as text."""
    parts = re.split(r"(\d+)", environment_id)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def transferred_model(environment_id: str) -> str:
    """The name of the calibrated model with the constants of another environment."""
    return _PREFIX + environment_id


def origin_environment(model: str) -> str | None:
    """The environment that a transferred model was calibrated in; None for every other model."""
    return model.removeprefix(_PREFIX) if model.startswith(_PREFIX) else None


def origin_labels(own: str, models: Iterable[str]) -> dict[str, str]:
    """A short label for every transferred model of `models`; other models are left out.

    The label is what the model's environment has and environment `own` has not: 'torch2.10.0', or
    'driver570.86 torch2.10.0'. The hash at the end of the id is added where no version differs and
    where two labels would be equal.
    """
    origins = {model: origin for model in models if (origin := origin_environment(model))}
    versions = {model: _versions_not_in(own, origin) for model, origin in origins.items()}
    count = Counter(versions.values())
    return {
        model: label if label and count[label] == 1 else _with_hash(label, origins[model])
        for model, label in versions.items()
    }


def _versions_not_in(own: str, other: str) -> str:
    """Versions in the id `other` (its hash left out) that the id `own` does not have."""
    own_parts = own.split("-")
    return " ".join(part for part in other.split("-")[:-1] if part not in own_parts)


def _with_hash(label: str, origin: str) -> str:
    digest = origin.rsplit("-", maxsplit=1)[-1]
    return f"{label} ({digest})" if label else f"environment {digest}"
