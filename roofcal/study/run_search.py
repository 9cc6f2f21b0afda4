"""The run that a person means: by device and environment, by its folder, or by part of its name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roofcal.core import paths
from roofcal.core.names import did_you_mean
from roofcal.core.paths import RunFolder, run_folders
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
    return (calibrated or matching)[-1]


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
        "`make study` measures this machine"
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
        wanted = folder.rstrip("/")
        names = _names_matching(wanted, list(by_name))
        if len(names) != 1:
            raise RunsError(_no_single_run(wanted, names, sorted(by_name)))
        run = by_name[names[0]]
    return RunFolder.at(run.folder, Path(derived) if derived else None)


def _names_matching(wanted: str, names: Sequence[str]) -> list[str]:
    """Names that are exactly `wanted`; those that start so where there is none."""
    exact = [name for name in names if wanted in (name, name.partition("/")[2])]
    starts = [n for n in names if n.startswith(wanted) or n.partition("/")[2].startswith(wanted)]
    return (exact or starts) if wanted else []


def _no_single_run(wanted: str, matching: Sequence[str], names: Sequence[str]) -> str:
    if matching:
        several = ", ".join(matching)
        return f"'{wanted}' may be any of: {several}; give more of the name, or the folder's path"
    # Names of environments are long: two that share four of ten letters are close.
    hint = did_you_mean(wanted, names, cutoff=0.4, otherwise=".")
    return (
        f"'{wanted}' is no run: neither a folder with an environment.jsonl nor the start of a "
        f"<device>/<environment_id>{hint} There are: {', '.join(names) or 'none'}"
    )
