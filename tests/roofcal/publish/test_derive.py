"""Derived files made again are those that were published, byte for byte."""

from pathlib import Path

from roofcal.core.paths import RunFolder
from roofcal.publish.derive import derive, derived_names, report_tables


def test_every_derived_file_is_made_again_bit_by_bit_on_another_number_of_cores(
    made: Path, two_cores: None, tmp_path: Path
) -> None:
    run = RunFolder.at(made)
    assert derived_names(run) == ["calibration.jsonl", "breakeven.csv", "llm.csv"]
    published = [name for name in derived_names(run) if (made / name).is_file()]
    derived = dict(derive(run, published, tmp_path / run.name))
    assert derived == {name: (made / name).read_bytes() for name in published}
    assert set(published) == {"calibration.jsonl", "breakeven.csv"}


def test_the_tables_are_those_that_the_report_wrote(made: Path, two_cores: None) -> None:
    tables = report_tables(RunFolder.at(made))
    assert set(tables) == {f"tables/{path.name}" for path in (made / "tables").iterdir()}
    for name, content in tables.items():
        assert content == (made / name).read_bytes(), name
