"""Derived files made again are those that were published, byte for byte."""

from pathlib import Path

import pytest

from roofcal.core.paths import RunFolder
from roofcal.publish.derive import derivations, report_tables
from tests.roofcal.published import DESCRIPTIONS, publish_made_up


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_made_up(tmp_path_factory.mktemp("study"), curves=True)


def test_every_derived_file_is_made_again_bit_by_bit(folder: Path, tmp_path: Path) -> None:
    steps = derivations(RunFolder.at(folder), DESCRIPTIONS, tmp_path)
    assert set(steps) == {"calibration.jsonl", "breakeven.csv", "learning.csv"}
    for name, make in steps.items():
        assert make() == (folder / name).read_bytes(), name


def test_the_tables_are_those_that_the_report_wrote(folder: Path) -> None:
    made = report_tables(RunFolder.at(folder), DESCRIPTIONS.devices)
    assert set(made) == {f"tables/{path.name}" for path in (folder / "tables").iterdir()}
    for name, content in made.items():
        assert content == (folder / name).read_bytes(), name
