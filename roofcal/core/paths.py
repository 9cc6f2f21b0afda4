"""Where a checkout keeps its files, where the files of a run are, and which run a person means.

CHECKOUT is absolute. Other paths are relative to the current folder where that is a checkout, so
that a person can open what is printed; else they lead to what an installed package carries, or to
the checkout that the code lies in.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from roofcal.core.environments import version_key
from roofcal.core.files import check_folder
from roofcal.core.names import did_you_mean, is_name

CHECKOUT: Final = Path(__file__).resolve().parents[2]

# What a wheel carries of a checkout (pyproject.toml); there is no such folder in a checkout.
BUNDLED: Final = CHECKOUT / "roofcal" / "bundled"

_INSTALLED: Final = BUNDLED if BUNDLED.is_dir() else CHECKOUT
_ROOT: Final = Path() if Path("config/devices").is_dir() else _INSTALLED
CONFIG: Final = _ROOT / "config"
DEVICES: Final = CONFIG / "devices"
MODELS: Final = CONFIG / "models"
PRIORS: Final = CONFIG / "priors"
CLAIMS: Final = CONFIG / "claims"
PUBLISHED: Final = _ROOT / "reports/published"
RESULTS: Final = Path("results")
REPLAY: Final = RESULTS / "replay"  # what `published: again` derives anew from publications

ENVIRONMENT_FILE: Final = "environment.jsonl"
# CSV files that are derived from the records of a run and its calibration.
DERIVED_TABLES: Final = ("breakeven.csv", "llm.csv")
JUDGED: Final = "judged"
SEED_FOLDER: Final = re.compile(r"seed(0|[1-9][0-9]{0,8})")  # one spelling of each seed
CARDS: Final = "cards"
CARD_NAME: Final = 12  # characters of the uuid of a card that name it: GPU-6237b75b
_SUFFIXES: Final = (".jsonl", ".jsonl.gz")  # publications are packed


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one device in one environment: <device>/<environment_id>.

    folder   holds the records: environment, plan/, measurements/ and what docs/data.md lists; its
             asked/, judged/seed<seed>/ and cards/<card>/ hold records of their own, which no fit
             reads: see `asked`, `judged` and `cards`
    derived  holds what follows from them: calibration, predictions/, tables; the same folder,
             except for a published run that is derived again below REPLAY
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
    def asked(self) -> "RunFolder":
        """What `roofcal time` measured on this device in this environment, also of a publication.

        It is laid out as a run of its own, so that no study plans, fits, reports or publishes it.
        Answers read its tables, see roofcal.points.tables.
        """
        return RunFolder.at(RESULTS / self.name / "asked")

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

    def judged(self) -> dict[int, "RunFolder"]:
        """Seed -> the records of layers that no study lists, by the seed that drew them."""
        folders = [folder for folder in self.folder.glob(f"{JUDGED}/*") if folder.is_dir()]
        seeds = {int(m[1]): f for f in folders if (m := SEED_FOLDER.fullmatch(f.name))}
        return {seed: RunFolder.at(seeds[seed]) for seed in sorted(seeds)}

    def cards(self) -> dict[str, "RunFolder"]:
        """Name, the first CARD_NAME characters of a uuid -> the records of another card."""
        folders = sorted(folder for folder in self.folder.glob(f"{CARDS}/*") if folder.is_dir())
        _refuse_bad_names((folder, folder.name) for folder in folders)
        return {folder.name: RunFolder.at(folder) for folder in folders}

    def beside(self) -> dict[str, "RunFolder"]:
        """Path below the run -> further records of its environment: of judges and of cards."""
        judged = {f"{JUDGED}/seed{seed}": records for seed, records in self.judged().items()}
        return judged | {f"{CARDS}/{name}": records for name, records in self.cards().items()}

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
    """A name in a path that no device, environment or op may have."""


class RunsError(ValueError):
    """Runs that are not there or cannot be used; the message says what to do."""


def run_folders(root: Path) -> list[RunFolder]:
    """The runs <device>/<environment_id> below a folder such as RESULTS or PUBLISHED, sorted.

    Raises PathError for names that would mean something else in a path or in a command.
    """
    runs = [RunFolder.at(file.parent) for file in sorted(root.glob(f"*/*/{ENVIRONMENT_FILE}"))]
    _refuse_bad_names((run.folder, name) for run in runs for name in run.name.split("/"))
    return runs


def find_run(device: str, environment: str | None = None) -> RunFolder:
    """The run of a device to show, of this machine or published.

    Calibrated comes before uncalibrated, measured here before published, and of several
    environments the last by name. Raises RunsError saying what there is where nothing matches.
    """
    runs = runs_with_records()
    matching = [
        run for run in runs if run.device == device and environment in (None, run.environment_id)
    ]
    if not matching:
        name = f"{device} {environment}" if environment else device
        names = sorted({f"{run.device} {run.environment_id}" for run in runs})
        way_out = _WITHOUT_SAMPLES if BUNDLED.is_dir() else "`make study` measures this machine"
        raise RunsError(
            f"nothing is measured or published of {name}; there is: "
            f"{'; '.join(names) or 'nothing'}. {way_out}"
        )
    calibrated = [run for run in matching if run.calibration_file.is_file()]
    run = (calibrated or matching)[-1]
    check_folder(run.folder)
    return run


def find_publication(device: str, environment: str) -> RunFolder:
    """The publication of a device: of that environment, else of the last one by version.

    Raises RunsError where the device has none with measurements.
    """
    published = [run for run in run_folders(PUBLISHED) if run.measured_ops()]
    matching = [run for run in published if run.device == device]
    if not matching:
        names = ", ".join(run.name for run in published) or "nothing"
        raise RunsError(f"nothing is published of {device}; there is: {names}")
    exact = [run for run in matching if run.environment_id == environment]
    run = exact[0] if exact else max(matching, key=lambda run: version_key(run.environment_id))
    check_folder(run.folder)
    return run


def runs_with_records() -> list[RunFolder]:
    """Runs with measurements, published ones before those of this machine.

    A published run has what was derived from it here; without that it is as it was frozen.
    """
    published = run_folders(PUBLISHED)
    replayed = [replace(run, derived=REPLAY / run.name) for run in published]
    shown = [
        again if again.calibration_file.is_file() else run
        for run, again in zip(published, replayed, strict=True)
    ]
    return [run for run in (*shown, *run_folders(RESULTS)) if run.measured_ops()]


_WITHOUT_SAMPLES: Final = (
    "The installed package carries publications without their samples; a clone of the repository "
    "has them"
)


def run_named(name: str, roots: Sequence[Path]) -> RunFolder:
    """The run called `name`; `FOLDER=DERIVED` where calibration and tables are elsewhere.

    Args:
        name: a run folder, `<device>/<environment_id>`, or an environment id. The start of one
            does where no other run has a name that starts so.
        roots: folders of <device>/<environment_id>; of two runs of one name, that of the last root
            counts.

    Raises:
        RunsError: no run or several runs have such a name; the message says which there are.
    """
    folder, _, derived = name.partition("=")
    run = RunFolder.at(Path(folder))
    if not run.environment_file.is_file():
        by_name = {run.name: run for root in roots for run in run_folders(root)}
        run_name = folder.rstrip("/")
        exact = [known for known in by_name if run_name in (known, known.partition("/")[2])]
        starts = [
            known
            for known in by_name
            if known.startswith(run_name) or known.partition("/")[2].startswith(run_name)
        ]
        names = (exact or starts) if run_name else []
        if len(names) > 1:
            raise RunsError(
                f"'{run_name}' may be any of: {', '.join(names)}; give more of the name, or the "
                "folder's path"
            )
        if not names:
            # Names of environments are long: two that share four of ten letters are close.
            known = sorted(by_name)
            hint = did_you_mean(run_name, known, cutoff=0.4, otherwise=".")
            raise RunsError(
                f"'{run_name}' is no run: neither a folder with an environment.jsonl nor the start "
                f"of a <device>/<environment_id>{hint} There are: {', '.join(known) or 'none'}"
            )
        run = by_name[names[0]]
    check_folder(run.folder)
    return RunFolder.at(run.folder, Path(derived) if derived else None)


def _refuse_bad_names(names: Iterable[tuple[Path, str]]) -> None:
    """names: (what to name in the message, the name to check)."""
    bad = [path for path, name in names if not is_name(name)]
    if bad:
        why = (
            "names of devices, environments and ops have letters, digits and . _ + - alone; rename "
            "it or take it away"
        )
        raise PathError("\n".join(f"{str(path)!r}: {why}" for path in dict.fromkeys(bad)))


def _records_file(folder: Path, op: str) -> Path:
    paths = [folder / f"{op}{suffix}" for suffix in _SUFFIXES]
    return next((path for path in paths if path.is_file()), paths[0])


def _ops_in(folder: Path) -> list[str]:
    """Ops by the names of the records files of a folder; hidden files are unfinished."""
    files = [file for file in folder.glob("*.jsonl*") if not file.name.startswith(".")]
    ops = {file: file.name.partition(".")[0] for file in files if file.name.endswith(_SUFFIXES)}
    _refuse_bad_names(ops.items())
    return sorted(set(ops.values()))
