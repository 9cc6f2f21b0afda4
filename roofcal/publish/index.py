"""What index.json says of a publication, and publications that claim one environment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roofcal.core.jsonl import read_records, read_single_record
from roofcal.core.manifest import NAME, read_manifest
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.records import Calibration, Environment


def claimed_twice(published: Path) -> Iterator[str]:
    """One sentence per environment that several publications say they are of.

    Raises RecordsError for a damaged environment.jsonl.
    """
    claimed: dict[str, list[Path]] = {}
    for run in run_folders(published):
        for environment in read_records(run.environment_file, Environment):
            name = f"{environment.device}/{environment.environment_id}"
            claimed.setdefault(name, []).append(run.folder)
    for name, folders in claimed.items():
        if len(folders) > 1:
            yield (
                f"{' and '.join(map(str, folders))} are both of {name}: keep the one that "
                "`python -m roofcal verify` says holds, and remove the other"
            )


def publication_row(run: RunFolder) -> dict[str, Any]:
    """What index.json says of a publication.

    Raises RecordsError, ManifestError for a damaged one.
    """
    environment = read_single_record(run.environment_file, Environment)
    calibration = None
    if run.calibration_file.is_file():
        calibration = read_single_record(run.calibration_file, Calibration)
    manifest = read_manifest(run.folder)
    return {
        "device": environment.device,
        "device_name": environment.device_name,
        "environment_id": environment.environment_id,
        "driver": environment.driver,
        "torch": environment.torch,
        "triton": environment.triton,
        "path": run.name,
        "ops": run.planned_ops(),
        "probe_points": calibration.probe_points if calibration else None,
        "commit": manifest["commit"] if manifest else None,
        "files": len(manifest["files"]) if manifest else None,
        "manifest": f"{run.name}/{NAME}" if manifest else None,
    }
