"""Names of predictions that were made with the calibration of another environment.

A device that was measured in several environments (another driver, another torch) has a calibration
of each. What the constants of environment E1 say of the points of E2 is a prediction of the model
`calibrated@E1` of E2, beside `calibrated`, whose constants are those of E2 itself.
"""

from collections.abc import Iterable
from typing import Final

CALIBRATED: Final = "calibrated"
_PREFIX: Final = f"{CALIBRATED}@"


def transferred(environment_id: str) -> str:
    """The name of the calibrated model with the constants of another environment."""
    return _PREFIX + environment_id


def origin_of(model: str) -> str | None:
    """The environment that a transferred model was calibrated in; None for every other model."""
    return model.removeprefix(_PREFIX) if model.startswith(_PREFIX) else None


def origins(own: str, models: Iterable[str]) -> dict[str, str]:
    """Transferred model -> what its environment has that environment `own` has not.

    'torch2.10.0', or 'driver570.86 torch2.10.0'. An environment that differs in no version has the
    hash at the end of its id; several that would be called the same have it as well. Other models
    are left out.
    """
    found = {m: origin for m in models if (origin := origin_of(m)) is not None}
    short = {m: _differing(own, origin) for m, origin in found.items()}
    names = list(short.values())
    return {
        m: name if name and names.count(name) == 1 else _with_hash(name, found[m])
        for m, name in short.items()
    }


def _differing(own: str, other: str) -> str:
    """Versions in an environment id, the hash at its end left out, that are not in `own`."""
    known = own.split("-")
    return " ".join(part for part in other.split("-")[:-1] if part not in known)


def _with_hash(name: str, origin: str) -> str:
    digest = origin.rsplit("-", maxsplit=1)[-1]
    return f"{name} ({digest})" if name else f"environment {digest}"
