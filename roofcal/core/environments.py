"""Names of environments: their order, and models calibrated in one that predict another.

What the constants of environment E1 predict for the points of E2 is the model `calibrated@E1` of
E2, beside `calibrated`, whose constants are those of E2 itself.
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


def age_key(environment_id: str, measured_utc: str) -> tuple[list[tuple[int, str]], str]:
    """Sorts runs of a device by their versions, of equal versions by when they were measured.

    Versions come first, because an older driver or torch may be measured again after the newest.
    The hash at the end of the id says nothing of age and does not count.
    """
    return version_key(environment_id.rpartition("-")[0]), measured_utc


def short_names(environment_ids: Iterable[str]) -> dict[str, str]:
    """Id -> 'driver 580, torch 2.11', for every id, as people tell environments apart.

    Ids that would share a name have whole versions in theirs, and where these are equal, the hash.
    """
    whole: dict[str, str] = {}
    for name in environment_ids:
        versions = re.findall(r"(?:^|-)(driver|torch)(\d[^-]*)", name)
        whole[name] = ", ".join(map(" ".join, versions)) or name
    first_numbers = r"(driver \d+|torch \d+\.\d+)[^,]*"
    forms = (
        {name: re.sub(first_numbers, r"\1", versions) for name, versions in whole.items()},
        whole,
        {name: f"{versions} ({name.rpartition('-')[2]})" for name, versions in whole.items()},
    )
    names: dict[str, str] = {}
    for form in forms:
        count = Counter(form.values())
        names |= {n: form[n] for n in whole if n not in names and count[form[n]] == 1}
    return names


def transferred_model(environment_id: str) -> str:
    """The name of the calibrated model with the constants of another environment."""
    return _PREFIX + environment_id


def origin_environment(model: str) -> str | None:
    """The environment that a transferred model was calibrated in; None for every other model."""
    return model.removeprefix(_PREFIX) if model.startswith(_PREFIX) else None


def is_calibrated(model: str) -> bool:
    """Whether a model predicts with calibrated constants, of whichever environment."""
    return model == CALIBRATED or origin_environment(model) is not None


def origin_labels(own: str, models: Iterable[str]) -> dict[str, str]:
    """A short label for every transferred model of `models`; other models are left out.

    The label is what the model's environment has and environment `own` has not: 'torch2.10.0', or
    'driver570.86 torch2.10.0'. The hash at the end of the id is added where no version differs and
    where two labels would be equal.
    """
    origins = {model: origin for model in models if (origin := origin_environment(model))}
    labels = {}
    for model, origin in origins.items():
        versions = origin.split("-")[:-1]  # its hash left out
        labels[model] = " ".join(part for part in versions if part not in own.split("-"))
    count = Counter(labels.values())
    for model, label in labels.items():
        digest = origins[model].rpartition("-")[2]
        if not label:
            labels[model] = f"environment {digest}"
        elif count[label] > 1:
            labels[model] = f"{label} ({digest})"
    return labels
