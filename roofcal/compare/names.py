"""The run that a person means: a folder, `<device>/<environment_id>`, or the start of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roofcal.compare.errors import CompareError
from roofcal.core.names import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run folder, and the folder of what was derived from it where that stands apart."""

    folder: Path
    derived: Path


def find(name: str, roots: Sequence[Path]) -> Named:
    """The run called `name`; `FOLDER=DERIVED` where calibration and tables stand apart.

    roots: folders of <device>/<environment_id>; of two runs of one name, that of the last root.
    `name` is a run folder, or `<device>/<environment_id>`, or an environment id; the start of a
    name does where no other name starts so. Raises CompareError saying what there is otherwise.
    """
    folder, _, derived = name.partition("=")
    if (Path(folder) / "environment.jsonl").is_file():
        return Named(folder=Path(folder), derived=Path(derived or folder))
    known = {_name(path): path for root in roots for path in _runs(root)}
    wanted = folder.rstrip("/")
    matching = _matching(wanted, list(known))
    if len(matching) != 1:
        raise CompareError(_say(wanted, matching, sorted(known)))
    found = known[matching[0]]
    return Named(folder=found, derived=Path(derived) if derived else found)


def _runs(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob("*/*/environment.jsonl"))


def _name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _matching(wanted: str, known: Sequence[str]) -> list[str]:
    """Names that are exactly `wanted`; those that start so where there is none."""
    exact = [name for name in known if wanted in (name, name.partition("/")[2])]
    starts = [n for n in known if n.startswith(wanted) or n.partition("/")[2].startswith(wanted)]
    return (exact or starts) if wanted else []


def _say(wanted: str, matching: Sequence[str], known: Sequence[str]) -> str:
    if matching:
        several = ", ".join(matching)
        return f"'{wanted}' may be any of: {several}; give more of the name, or the folder's path"
    hint = did_you_mean(wanted, known, cutoff=0.4)
    return (
        f"'{wanted}' is no run: neither a folder with an environment.jsonl nor the start of a "
        f"<device>/<environment_id>{hint} There are: {', '.join(known) or 'none'}"
    )
