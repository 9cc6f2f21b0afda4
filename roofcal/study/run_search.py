"""The run that a person means: by device and environment, by its folder, or by part of its name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from roofcal.core import paths
from roofcal.core.environments import version_key
from roofcal.core.files import check_folder
from roofcal.core.names import did_you_mean
from roofcal.core.paths import BUNDLED, RunFolder, run_folders
from roofcal.study.runs import RunsError, measured_ops


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
        raise RunsError(_nothing_measured(device, environment, runs))
    calibrated = [run for run in matching if run.calibration_file.is_file()]
    run = (calibrated or matching)[-1]
    check_folder(run.folder)
    return run


def find_publication(device: str, environment: str) -> RunFolder:
    """The publication of a device: of that environment, else of the last one by version.

    Raises RunsError where the device has none with measurements.
    """
    published = [run for run in run_folders(paths.PUBLISHED) if measured_ops(run)]
    matching = [run for run in published if run.device == device]
    if not matching:
        names = ", ".join(run.name for run in published) or "nothing"
        raise RunsError(f"nothing is published of {device}; there is: {names}")
    exact = [run for run in matching if run.environment_id == environment]
    run = exact[0] if exact else max(matching, key=lambda run: version_key(run.environment_id))
    check_folder(run.folder)
    return run


def runs_with_records() -> list[RunFolder]:
    """Runs with measurements, published ones before those of this machine."""
    runs = [*map(_replayed, run_folders(paths.PUBLISHED)), *run_folders(paths.RESULTS)]
    return [run for run in runs if measured_ops(run)]


def _replayed(published: RunFolder) -> RunFolder:
    """A published run with what was derived from it here; as it was frozen without that."""
    replayed = replace(published, derived=paths.REPLAY / published.name)
    return replayed if replayed.calibration_file.is_file() else published


def _nothing_measured(device: str, environment: str | None, runs: Sequence[RunFolder]) -> str:
    names = sorted({f"{run.device} {run.environment_id}" for run in runs})
    name = f"{device} {environment}" if environment else device
    return (
        f"nothing is measured or published of {name}; there is: {'; '.join(names) or 'nothing'}. "
        f"{_WITHOUT_SAMPLES if BUNDLED.is_dir() else '`make study` measures this machine'}"
    )


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
        names = _names_matching(run_name, list(by_name))
        if len(names) != 1:
            raise RunsError(_no_single_run(run_name, names, sorted(by_name)))
        run = by_name[names[0]]
    check_folder(run.folder)
    return RunFolder.at(run.folder, Path(derived) if derived else None)


def _names_matching(run_name: str, names: Sequence[str]) -> list[str]:
    """Names that are exactly `run_name`; those that start so where there is none."""
    exact = [name for name in names if run_name in (name, name.partition("/")[2])]
    starts = [
        n for n in names if n.startswith(run_name) or n.partition("/")[2].startswith(run_name)
    ]
    return (exact or starts) if run_name else []


def _no_single_run(run_name: str, matching: Sequence[str], names: Sequence[str]) -> str:
    if matching:
        several = ", ".join(matching)
        return f"'{run_name}' may be any of: {several}; give more of the name, or the folder's path"
    # Names of environments are long: two that share four of ten letters are close.
    hint = did_you_mean(run_name, names, cutoff=0.4, otherwise=".")
    return (
        f"'{run_name}' is no run: neither a folder with an environment.jsonl nor the start of a "
        f"<device>/<environment_id>{hint} There are: {', '.join(names) or 'none'}"
    )
