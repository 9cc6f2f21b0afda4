"""Where a checkout keeps its files, and where the files of a run are.

CHECKOUT is absolute. The other paths are relative to the current folder where that is a checkout,
because a study runs in its checkout and prints paths that a person can open from there. Elsewhere
they lead to what an installed package carries, or to the checkout that the code lies in.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roofcal.core.names import is_name

CHECKOUT: Final = Path(__file__).resolve().parents[2]

# What a wheel carries of a checkout (pyproject.toml); there is no such folder in a checkout.
BUNDLED: Final = CHECKOUT / "roofcal" / "bundled"


def _data_root() -> Path:
    """The folder of config/ and reports/published/."""
    if Path("config/devices").is_dir():
        return Path()
    return BUNDLED if BUNDLED.is_dir() else CHECKOUT


_ROOT: Final = _data_root()
CONFIG: Final = _ROOT / "config"
DEVICES: Final = CONFIG / "devices"
MODELS: Final = CONFIG / "models"
CLAIMS: Final = CONFIG / "claims"
PUBLISHED: Final = _ROOT / "reports/published"
RESULTS: Final = Path("results")
REPLAY: Final = RESULTS / "replay"  # what `published: again` derives anew from publications

ENVIRONMENT_FILE: Final = "environment.jsonl"
# CSV files that are derived from the records of a run and its calibration.
DERIVED_TABLES: Final = ("breakeven.csv", "llm.csv")
_SUFFIXES: Final = (".jsonl", ".jsonl.gz")  # publications are packed


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one device in one environment: <device>/<environment_id>.

    folder   holds the records:
                 environment.jsonl            what the numbers depend on
                 plan/<op>.jsonl              the points, in the order of measuring
                 journal/<op>.jsonl           every measurement ever taken (not published)
                 measurements/<op>.jsonl      sessions, then one row per point of the plan
                 journal/<op>.<gpus>.jsonl, measurements/by_gpus/<op>.<gpus>.jsonl
                                              of jobs that share out a plan by world size
    derived  holds what follows from them; the same folder, except for a published run that is
             derived again below REPLAY:
                 calibration.jsonl            constants with intervals
                 predictions/<op>.jsonl       every model on every study point
                 breakeven.csv, llm.csv
                 moved.json                   changes since the environment before
                 tables/*.csv, report.html    of a publication
    """

    folder: Path
    derived: Path

    @classmethod
    def at(cls, folder: Path, derived: Path | None = None) -> "RunFolder":
        """The run of a folder; `derived` where that is another one."""
        return cls(folder, derived or folder)

    @property
    def device(self) -> str:
        """The device id, by the names of the folders."""
        return self.folder.parent.name

    @property
    def environment_id(self) -> str:
        """The environment id, by the name of the folder."""
        return self.folder.name

    @property
    def name(self) -> str:
        """<device>/<environment_id>."""
        return f"{self.device}/{self.environment_id}"

    @property
    def environment_file(self) -> Path:
        """environment.jsonl."""
        return self.folder / ENVIRONMENT_FILE

    def plan_file(self, op: str) -> Path:
        """The plan of an op, packed or not; plan/<op>.jsonl where there is neither."""
        return _records_file(self.folder / "plan", op)

    def measurements_file(self, op: str) -> Path:
        """The measurements of an op, packed or not; measurements/<op>.jsonl without either."""
        return _records_file(self.folder / "measurements", op)

    def journal_file(self, op: str) -> Path:
        """Every measurement ever taken of an op."""
        return self.folder / "journal" / f"{op}.jsonl"

    @property
    def calibration_file(self) -> Path:
        """calibration.jsonl."""
        return self.derived / "calibration.jsonl"

    def predictions_file(self, op: str) -> Path:
        """The predictions of an op by all models."""
        return self.derived / "predictions" / f"{op}.jsonl"

    def table_file(self, name: str) -> Path:
        """One of DERIVED_TABLES."""
        return self.derived / name

    @property
    def breakeven_file(self) -> Path:
        """breakeven.csv, the map of break-even points."""
        return self.table_file("breakeven.csv")

    @property
    def moved_file(self) -> Path:
        """moved.json, what `compare` says of the environment before this one."""
        return self.derived / "moved.json"

    def planned_ops(self) -> list[str]:
        """Names of the ops with a plan, sorted."""
        return _ops_in(self.folder / "plan")

    def measured_ops(self) -> list[str]:
        """Names of the ops with measurements, sorted."""
        return _ops_in(self.folder / "measurements")

    def predicted_ops(self) -> list[str]:
        """Names of the ops with predictions, sorted."""
        return _ops_in(self.derived / "predictions")


class PathError(ValueError):
    """Folders or files have names that a run may not have; the message has a line for each."""


def run_folders(root: Path) -> list[RunFolder]:
    """The runs <device>/<environment_id> below a folder such as RESULTS or PUBLISHED, sorted.

    Raises PathError for names that would mean something else in a path or in a command.
    """
    runs = [RunFolder.at(file.parent) for file in sorted(root.glob(f"*/*/{ENVIRONMENT_FILE}"))]
    names = [(run.folder, run.device) for run in runs]
    names += [(run.folder, run.environment_id) for run in runs]
    _refuse_bad_names(names)
    return runs


def _refuse_bad_names(names: list[tuple[Path, str]]) -> None:
    """names: (what to name in the message, the name to check)."""
    bad = [path for path, name in names if not is_name(name)]
    if bad:
        raise PathError("\n".join(f"{str(path)!r}: {_BAD_NAME}" for path in dict.fromkeys(bad)))


_BAD_NAME: Final = (
    "names of devices, environments and ops have letters, digits and . _ + - alone; rename it or "
    "take it away"
)


def _records_file(folder: Path, op: str) -> Path:
    paths = [folder / f"{op}{suffix}" for suffix in _SUFFIXES]
    return next((path for path in paths if path.is_file()), paths[0])


def _ops_in(folder: Path) -> list[str]:
    """Ops by the names of the records files of a folder; hidden files are unfinished."""
    files = [file for file in folder.glob("*.jsonl*") if not file.name.startswith(".")]
    ops = {file: file.name.partition(".")[0] for file in files if file.name.endswith(_SUFFIXES)}
    _refuse_bad_names(list(ops.items()))
    return sorted(set(ops.values()))
