"""One made-up publication for all tests of publishing."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofcal.core.paths import RunFolder
from roofcal.publish import freeze
from tests.made_once import make_once
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT
from tests.roofcal.published import publish_made_up


@pytest.fixture(autouse=True)
def _few(few_resamples: None) -> None:
    """Every test here derives files as `publish_made_up` did."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the publication, which tests leave as it is."""
    study = make_once(tmp_path_factory, "made-up-publication", publish_made_up)
    return study / "published" / ENVIRONMENT.device / ENVIRONMENT.environment_id


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may change."""
    target = tmp_path / "published" / made.parent.name / made.name
    shutil.copytree(made, target)
    return target


@pytest.fixture
def _calibrations_as_published(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows from the records is derived in full in test_freeze and test_verify."""

    def derive(run: RunFolder, names: list[str], place: Path) -> Iterator[tuple[str, bytes]]:
        for name in names:
            if (made / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(made / name, place / name)
                yield name, (made / name).read_bytes()

    monkeypatch.setattr(freeze, "derive", derive)
