"""Records of a judge beside a publication: added whole, hashed, checked, kept, never replaced."""

import gzip
import shutil
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.manifest import read_manifest, write_manifest
from roofcal.core.paths import RunFolder
from roofcal.core.records import Measurement, Session
from roofcal.judge.layers import unlisted_points
from roofcal.publish import verify
from roofcal.publish.freeze import PublishError, publication_of, publish, run_folders_anew
from roofcal.publish.verify import files_without_report
from tests.made_once import make_once
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT
from tests.roofcal.published import files_in, judged_run

SEED = 5
GEMM = f"judged/seed{SEED}/measurements/gemm.jsonl.gz"


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    return judged_run(tmp_path / "unlisted", SEED)


@pytest.fixture
def with_judge(
    made: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    undrawn: None,
    _calibrations_as_published: None,
) -> Path:
    """A publication with the records of a judge; a copy of its own per test."""

    def publish_judged(place: Path) -> None:
        folder = place / "published" / made.parent.name / made.name
        shutil.copytree(made, folder)
        judged = judged_run(place / "unlisted", SEED)
        (run,) = run_folders_anew([folder], place / "runs", [judged])
        publish(run, place / "published")

    place = make_once(tmp_path_factory, "judged-publication", publish_judged)
    shutil.copytree(place / "published", tmp_path / "published")
    return tmp_path / "published" / made.parent.name / made.name


def quickly(folder: Path) -> verify.Outcome:
    return verify.verify(folder, quick=True)


def test_records_are_added_to_what_was_published(
    with_judge: Path, made: Path, judged: Path
) -> None:
    files, before = files_in(with_judge), files_in(made)
    added = set(files) - set(before)
    own = {f"judged/seed{SEED}/{name}" for name in ("environment.jsonl",)}
    for op in RunFolder.at(judged).planned_ops():
        own |= {f"judged/seed{SEED}/{part}/{op}.jsonl.gz" for part in ("plan", "measurements")}
    assert added == own | {"tables/judged_errors.csv"}
    manifest = read_manifest(with_judge)
    assert manifest is not None
    assert own <= set(manifest["files"])
    assert own <= set(files_without_report(with_judge)), "the site hosts them"
    rows = read_records(judged / "measurements/gemm.jsonl", Session, Measurement)
    assert read_records(with_judge / GEMM, Session, Measurement) == rows


def test_the_publication_holds_bit_by_bit_on_another_number_of_cores(
    with_judge: Path, two_cores: None
) -> None:
    """Everything is made again. The calibration is that of `made`: no fit reads the judge."""
    outcome = verify.verify(with_judge)
    assert (outcome.state, outcome.problems, outcome.notes) == ("holds", (), ())
    table = with_judge / "tables/judged_errors.csv"
    lines = table.read_text().splitlines()
    assert any(f",{SEED},2026-11-27T10:00:00,gemm,calibrated,all,all,all," in x for x in lines)
    table.write_text(table.read_text().replace(f",{SEED},", ",6,", 1))
    write_manifest(with_judge, "c0ffee")
    assert any(f"{table}:2: published" in problem for problem in quickly(with_judge).problems)


@pytest.mark.parametrize("name", ["judged/seed5/run.sh", "judged/seed05/environment.jsonl"])
def test_a_file_that_is_no_record_of_a_judge_is_named(with_judge: Path, name: str) -> None:
    (with_judge / name).parent.mkdir(exist_ok=True)
    (with_judge / name).write_text("")
    write_manifest(with_judge, "c0ffee")
    (problem,) = quickly(with_judge).problems
    assert problem.startswith(f"{with_judge / name}: is no file of a publication")


def test_edited_cut_off_and_foreign_records_are_named(with_judge: Path) -> None:
    file = with_judge / GEMM
    whole, text = file.read_bytes(), gzip.decompress(file.read_bytes())
    file.write_bytes(gzip.compress(text.replace(b"0.0001", b"0.0002"), mtime=0))
    (problem,) = quickly(with_judge).problems
    assert problem.startswith(f"{file}: SHA-256 is not that of the manifest")
    for content, said in (
        (whole[:-100], "cut off or damaged"),
        (gzip.compress(b"", mtime=0), "holds no measurement of its plan"),
        (
            gzip.compress(text.replace(ENVIRONMENT.environment_id.encode(), b"e"), mtime=0),
            "holds measurements of another environment",
        ),
    ):
        file.write_bytes(content)
        write_manifest(with_judge, "c0ffee")
        problems = quickly(with_judge).problems
        assert [p for p in problems if p.startswith(str(file)) and said in p], problems


def test_an_op_that_no_seed_draws_is_named(with_judge: Path) -> None:
    seed = with_judge / f"judged/seed{SEED}"
    for part in ("plan", "measurements"):
        shutil.copyfile(
            with_judge / f"{part}/probe_math.jsonl.gz", seed / part / "probe_math.jsonl.gz"
        )
    write_manifest(with_judge, "c0ffee")
    (problem,) = quickly(with_judge).problems
    assert problem.startswith(f"{seed}/plan: holds probe_math, of which no seed draws points")


def test_a_list_of_layers_that_grew_is_a_note(
    with_judge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "unlisted_points", lambda seed, at: unlisted_points(seed + 1, at))
    outcome = quickly(with_judge)
    assert outcome.state == "holds"
    assert "the layers of today give seed 5 other points" in outcome.notes[0]


def test_they_are_never_replaced(with_judge: Path, judged: Path, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match=f"seed{SEED}: is published; draw another seed"):
        run_folders_anew([with_judge], tmp_path / "second", [judged])
    (run,) = run_folders_anew([with_judge], tmp_path / "again")
    rows = read_records(run / GEMM, Session, Measurement)
    write_records(run / GEMM, rows[:-1])
    with pytest.raises(PublishError, match="holds other measurements of this environment"):
        publish(run, tmp_path / "published")


def test_the_publication_is_found_by_the_names_of_folders(
    folder: Path, judged: Path, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    assert publication_of(judged, published, is_judged=True) == folder
    for wrong in (judged.parent, judged.with_name("other"), folder, Path("results")):
        with pytest.raises(PublishError, match="give a folder seed<seed>/<device>/<environment_id"):
            publication_of(wrong, published, is_judged=True)


def test_chosen_or_unfinished_points_are_refused(
    folder: Path, judged: Path, tmp_path: Path
) -> None:
    file = judged / "measurements/cast.jsonl"
    rows = read_records(file, Session, Measurement)
    write_records(file, rows[:-2])
    with pytest.raises(PublishError, match="lacks 2 of the points that were drawn"):
        run_folders_anew([folder], tmp_path / "place", [judged])
    write_records(file, rows)
    other = judged.parents[2] / "seed6" / judged.parent.name / judged.name
    shutil.copytree(judged, other)
    with pytest.raises(PublishError, match="holds other points than seed 6 draws"):
        run_folders_anew([folder], tmp_path / "place", [other])
    nameless = judged.parents[2] / "mine" / judged.parent.name / judged.name
    shutil.copytree(judged, nameless)
    with pytest.raises(PublishError, match="is of no seed"):
        run_folders_anew([folder], tmp_path / "place", [nameless])
    (judged / "measurements/linear.jsonl").unlink()
    with pytest.raises(PublishError, match=r"linear\.jsonl: no such records file"):
        run_folders_anew([folder], tmp_path / "place", [judged])
