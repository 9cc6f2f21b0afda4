"""One message for a name that the torchao model does not know."""

import difflib
from collections.abc import Iterable

from roofcal.models.errors import PredictError


def check_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Raises PredictError, listing what is known, where `name` is not among it."""
    names = sorted(known)
    if name in names:
        return
    close = difflib.get_close_matches(name, names, n=1)
    nearest = f"did you mean '{close[0]}'? " if close else ""
    raise PredictError(f"torchao: unknown {kind} '{name}'; {nearest}known: {', '.join(names)}")
