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
        name = f"{device} {environment}" if environment else device
        names = sorted({f"{run.device} {run.environment_id}" for run in runs})
        raise RunsError(
            f"nothing is measured or published of {name}; there is: "
            f"{'; '.join(names) or 'nothing'}. "
            f"{_WITHOUT_SAMPLES if BUNDLED.is_dir() else '`make study` measures this machine'}"
        )
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
