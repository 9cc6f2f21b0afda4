"""Records of further cards beside a publication: one card each, hashed, checked, never replaced."""

import shutil
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.manifest import write_manifest
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement
from roofcal.publish import freeze
from roofcal.publish.verify import verify
from tests.roofcal.made_up_records import session
from tests.roofcal.published import files_in

CARD = "GPU-22222222"


def measured_on(records: Path, target: Path, *uuids: str | None) -> Path:
    """The records of a folder as if these cards had measured them, the last one most ops."""
    run, given = RunFolder.at(records), list(uuids)
    shutil.copytree(records, target)
    for op in run.planned_ops():
        uuid = given.pop(0) if len(given) > 1 else given[0]
        rows = read_records(run.measurements_file(op), Measurement)
        own = {"environment_id": run.environment_id, "op": op, "device_uuid": uuid}
        of_rows = session(session_id=rows[0].session_id, **own)
        write_records(RunFolder.at(target).measurements_file(op), [of_rows, *rows])
    return target


@pytest.fixture
def card(made: Path, tmp_path: Path) -> Path:
    """A run of another card, as a study leaves it."""
    target = tmp_path / "results" / made.parent.name / made.name
    return measured_on(made, target, f"{CARD}-6d3e")


@pytest.fixture
def with_card(
    folder: Path, card: Path, tmp_path: Path, undrawn: None, _calibrations_as_published: None
) -> Path:
    (run,) = freeze.run_folders_anew([folder], tmp_path / "runs", cards=[card])
    return freeze.publish(run, folder.parents[1])


def test_they_are_published_verified_and_kept(with_card: Path, card: Path, tmp_path: Path) -> None:
    records = RunFolder.at(with_card).cards()[CARD]
    assert records.planned_ops() == RunFolder.at(card).planned_ops()
    assert not (records.folder / "calibration.jsonl").exists()
    outcome = verify(with_card, quick=True)
    assert (outcome.state, outcome.problems) == ("holds", ())
    before = files_in(with_card)
    (run,) = freeze.run_folders_anew([with_card], tmp_path / "again")
    assert files_in(freeze.publish(run, tmp_path / "published")) == before
    with pytest.raises(freeze.PublishError, match=f"cards/{CARD}: is published"):
        freeze.run_folders_anew([with_card], tmp_path / "second", cards=[card])


@pytest.mark.parametrize("uuid", ["GPU-33333333-6d3e", None, "GPU-22222222-6d3e,GPU-44444444-6d3e"])
def test_records_of_another_card_than_the_folder_says_do_not_hold(
    with_card: Path, tmp_path: Path, uuid: str | None
) -> None:
    folder = with_card / "cards" / CARD
    shutil.move(folder, tmp_path / "own")
    measured_on(tmp_path / "own", folder, uuid)
    (folder / "run.sh").write_text("")
    write_manifest(with_card, "c0ffee")
    strange, other = verify(with_card, quick=True).problems
    assert strange.startswith(f"{folder / 'run.sh'}: is no file of a publication")
    assert other.startswith(f"{folder}: was measured on ")


def test_records_of_a_card_that_cannot_be_read_or_have_no_plan_do_not_hold(with_card: Path) -> None:
    folder = with_card / "cards" / CARD
    file = folder / "measurements" / "probe_copy.jsonl.gz"
    shutil.copy(file, file.with_name("cast_of_others.jsonl.gz"))
    file.write_bytes(b"damaged")
    write_manifest(with_card, "c0ffee")
    unplanned, damaged = verify(with_card, quick=True).problems
    assert unplanned.startswith(f"{folder}/measurements: holds cast_of_others without a plan; ")
    assert damaged.startswith(f"{file}:1: probe_copy.jsonl.gz is cut off or damaged here")


def test_records_of_several_cards_and_of_other_software_are_refused(
    folder: Path, made: Path, tmp_path: Path
) -> None:
    for name in "ab":
        measured_on(made, tmp_path / name / made.parent.name / made.name, "GPU-33333333")
    twice = [tmp_path / name / made.parent.name / made.name for name in "ab"]
    with pytest.raises(freeze.PublishError, match="several of the folders are of one seed or card"):
        freeze.run_folders_anew([folder], tmp_path / "runs", cards=twice)
    place = tmp_path / "several" / made.parent.name / made.name
    several = measured_on(made, place, "GPU-33333333", f"{CARD}-6d3e")
    with pytest.raises(freeze.PublishError, match=f"was measured on {CARD} and GPU-33333333"):
        freeze.run_folders_anew([folder], tmp_path / "runs", cards=[several])
    unknown = measured_on(made, tmp_path / "unknown" / made.parent.name / made.name, None)
    with pytest.raises(freeze.PublishError, match="was measured on an unknown card"):
        freeze.run_folders_anew([folder], tmp_path / "runs", cards=[unknown])
    assert freeze.publication_of(several, folder.parent.parent, is_judged=False) == folder
    with pytest.raises(
        freeze.PublishError, match="several/other: give a run folder <device>/<environ"
    ):
        freeze.publication_of(
            several.parent.parent / "other", folder.parent.parent, is_judged=False
        )
    with pytest.raises(freeze.PublishError, match="is of no publication that is made anew"):
        freeze.run_folders_anew(
            [folder], tmp_path / "runs", cards=[several.rename(place.parent / "e")]
        )
