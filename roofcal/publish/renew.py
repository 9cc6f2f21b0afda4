"""Derived files of publications anew, by the present code, to be published over the old ones."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from roofcal.core.manifest import manifest_problems
from roofcal.core.paths import RunFolder
from roofcal.publish.derive import Descriptions, derive, derived_names
from roofcal.publish.freeze import PublishError
from roofcal.publish.verify import record_problems


def run_folders_anew(
    publications: Sequence[Path], place: Path, descriptions: Descriptions
) -> list[Path]:
    """Run folders below `place` with the records of publications and fresh derived files.

    All calibrations are derived first, because environments of one device predict each other.

    Raises PublishError for records that are not those of the manifest or cannot be read, ValueError
    for a file that cannot be made; no publication is changed.
    """
    runs = [RunFolder.at(folder) for folder in publications]
    for run in runs:
        problems = manifest_problems(run.folder, records_only=True)
        if problems := problems or list(record_problems(run)):
            raise PublishError("\n".join(problems))
    for run in runs:
        for part in (run.environment_file, run.folder / "plan", run.folder / "measurements"):
            copy = shutil.copytree if part.is_dir() else shutil.copyfile
            (place / run.name).mkdir(parents=True, exist_ok=True)
            copy(part, place / run.name / part.name)
        list(derive(run, derived_names(run)[:1], place / run.name, descriptions))
    for run in runs:
        list(derive(run, derived_names(run)[1:], place / run.name, descriptions))
    return [place / run.name for run in runs]
