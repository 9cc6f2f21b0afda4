"""Publishing freezes a finished run, byte for byte, and refuses to replace measurements."""

import gzip
import shutil
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path

import pytest

from roofcal.claims import load_claims
from roofcal.core.environments import transferred_model
from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.machine.checkout import checkout_commit
from roofcal.core.manifest import read_manifest, write_manifest
from roofcal.core.paths import RunFolder
from roofcal.core.records import Calibration, Measurement, PlanPoint, Prediction
from roofcal.models import calibrated
from roofcal.ops.time_models import Sources
from roofcal.publish.freeze import PublishError, publish, run_folders_anew
from roofcal.publish.verify import verify
from roofcal.report.sections.llm import LABELS, NUMBERS
from tests.paths import ROOT
from tests.roofcal.calibrate.probe_runs import ENVIRONMENT
from tests.roofcal.models.runs import calibration, product
from tests.roofcal.published import files_in, finished_run

MAP = (
    "recipe,pass,casts,m,n,k,speedup,low,high,class,breakeven_m,breakeven_m_low,breakeven_m_high\n"
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return finished_run(tmp_path / "results")


def test_records_calibration_tables_and_report_are_frozen_with_a_manifest(
    run: Path, tmp_path: Path
) -> None:
    target = publish(run, tmp_path / "published")
    assert target == tmp_path / "published/made-up" / ENVIRONMENT.environment_id
    files = set(files_in(target))
    assert {"environment.jsonl", "calibration.jsonl", "report.html"} <= files
    assert "measurements/probe_math.jsonl.gz" in files
    assert any(name.startswith("tables/") and name.endswith(".csv") for name in files)
    original = read_records(run / "measurements/probe_math.jsonl", Measurement)
    assert read_records(target / "measurements/probe_math.jsonl.gz", Measurement) == original
    archive = (target / "plan/probe_copy.jsonl.gz").read_bytes()
    assert archive[4:8] == b"\0\0\0\0", "holds no time of writing"
    assert len(gzip.decompress(archive).splitlines()) == len(
        read_records(run / "plan/probe_copy.jsonl", PlanPoint)
    )
    manifest = read_manifest(target)
    assert manifest is not None
    assert set(manifest["files"]) == files - {"manifest.json"}
    assert manifest["commit"] == checkout_commit()
    first = files_in(target)
    assert files_in(publish(run, tmp_path / "published")) == first, (
        "the same records, the same bytes"
    )


@pytest.mark.usefixtures("undrawn")
def test_derived_tables_are_frozen_where_there_are_any(run: Path, tmp_path: Path) -> None:
    tables = {"breakeven.csv": MAP.encode(), "llm.csv": ",".join((*LABELS, *NUMBERS)).encode()}
    assert not tables.keys() & files_in(publish(run, tmp_path / "a")).keys()
    for name, table in tables.items():
        (run / name).write_bytes(table)
    assert tables.items() <= files_in(publish(run, tmp_path / "b")).items()


@pytest.mark.usefixtures("undrawn")
def test_predictions_are_frozen_if_their_calibration_is_published_too(
    run: Path, tmp_path: Path
) -> None:
    models = ["calibrated", "torchao", transferred_model("e1"), transferred_model("e2")]
    one = calibrated.predict([product(64, 64, 64)], Sources(calibration=calibration()))
    written = [replace(prediction, model=name) for name in models for prediction in one]
    write_records(run / "predictions/gemm.jsonl", written)
    published = tmp_path / "published"
    write_records(published / "made-up/e2/calibration.jsonl", [calibration("made-up", "e2")])

    target = publish(run, published)

    kept = read_records(target / "predictions/gemm.jsonl", Prediction)
    assert [prediction.model for prediction in kept] == [*models[:2], transferred_model("e2")]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("step", ["write_report", "write_manifest", "rename"])
def test_an_error_at_any_step_leaves_the_publication_as_it_was(
    run: Path, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = tmp_path / "published"
    target = publish(run, published)
    (run / "breakeven.csv").write_text(MAP)  # so that the new publication differs
    before, rename = files_in(published), Path.rename

    def fail(*_: object) -> None:
        raise OSError(ENOSPC, "no space left on device")

    def refuse_the_new(path: Path, to: Path) -> Path:
        if to == target and (path / "breakeven.csv").is_file():
            fail()
        return rename(path, to)

    if step == "rename":
        monkeypatch.setattr(Path, step, refuse_the_new)
    else:
        monkeypatch.setattr(f"roofcal.publish.freeze.{step}", fail)
    with pytest.raises(OSError, match="no space left"):
        publish(run, published)
    assert files_in(published) == before
    assert [path.name for path in target.parent.iterdir()] == [target.name]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("gone", "missing"),
    [
        ("calibration.jsonl", "the calibration"),
        ("measurements/probe_math.jsonl", "the measurement of probe_math"),
        ("plan", "the plan of any op"),
    ],
)
def test_an_unfinished_run_is_refused_and_what_it_lacks_is_named(
    run: Path, tmp_path: Path, gone: str, missing: str
) -> None:
    if (run / gone).is_dir():
        shutil.rmtree(run / gone)
    else:
        (run / gone).unlink()
    with pytest.raises(PublishError, match=f": {missing} is missing; finish the study first"):
        publish(run, tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_a_publication_carries_the_verdicts_of_the_ledger_and_verifies_when_it_grows(
    run: Path, tmp_path: Path
) -> None:
    claims = load_claims(ROOT / "config/claims")
    target = publish(run, tmp_path / "published", claims)
    verdicts = (target / "tables/claims.csv").read_text().splitlines()
    assert len(verdicts) > len(claims)
    assert "Do the claims hold?" in (target / "report.html").read_text()
    assert verify(target, quick=True).problems == ()  # which knows no ledger

    (target / "tables/claims.csv").write_text("edited")
    (problem,) = verify(target, quick=True).problems
    assert "claims.csv" in problem


MATH = "measurements/probe_math.jsonl.gz"


def test_files_derived_by_other_code_become_those_of_this_code(
    folder: Path, made: Path, tmp_path: Path
) -> None:
    """Those of this code are those of `made`, which holds in full: see test_verify."""
    file = RunFolder.at(folder).calibration_file
    older = replace(read_single_record(file, Calibration), seed=99)
    write_records(file, [older])
    (folder / "breakeven.csv").unlink()
    write_manifest(folder, "c0ffee")

    (run,) = run_folders_anew([folder], tmp_path / "place")
    publish(run, folder.parent.parent)

    assert verify(folder, quick=True).state == "holds"
    assert (folder / "llm.csv").is_file()
    for name in ("calibration.jsonl", "breakeven.csv", MATH):
        assert (folder / name).read_bytes() == (made / name).read_bytes(), name


def test_records_that_are_not_those_of_the_manifest_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    text = gzip.decompress((folder / MATH).read_bytes()).replace(b'"ok"', b'"failed"', 1)
    (folder / MATH).write_bytes(gzip.compress(text, mtime=0))
    with pytest.raises(PublishError, match=f"{MATH}: SHA-256 is not that of the manifest"):
        run_folders_anew([folder], tmp_path / "place")
