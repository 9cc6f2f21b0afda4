"""A run folder, as plain or compressed files, whole or in parts."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.environments import transferred_model
from roofcal.core.files import write_bytes
from roofcal.core.jsonl import RecordsError, read_records, write_records
from roofcal.core.records import Calibration, Measurement, Session
from roofcal.core.visits.rows import merged_visits
from roofcal.points.reader import NOT_REACHED
from roofcal.points.run import RunError, load_run
from roofcal.report.data.quality import sentinel_drift
from roofcal.report.data.tidy import models_in
from tests.roofcal.report.synthetic import GPU, outdate, product, whole_run


def test_a_run_knows_its_ops_and_joins_their_records_by_point(folder: Path) -> None:
    run = load_run(folder)
    assert run.ops == ("probe_launch", "probe_copy", "gemm", "cast")
    table, sessions = run.points("gemm")
    assert set(models_in(table)) == {"calibrated", "torchao", "datasheet"}
    assert [session.op for session in sessions] == ["gemm"]
    assert {point.device for point in whole_run().points["gemm"]} == {GPU.device}


def test_compressed_records_make_a_published_run(tmp_path: Path) -> None:
    plain = whole_run().write(tmp_path / "a")
    packed = whole_run().write(tmp_path / "b", suffix=".jsonl.gz")

    assert load_run(plain).origin == "measured"
    assert load_run(packed).origin == "published"
    tables = (load_run(packed).points("gemm").table, load_run(plain).points("gemm").table)
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_calibration_and_predictions_come_from_the_derived_folder(tmp_path: Path) -> None:
    made_up = whole_run()
    folder = made_up.write(tmp_path / "published")
    (folder / "calibration.jsonl").unlink()
    derived = tmp_path / "replay"
    write_records(derived / "calibration.jsonl", [made_up.calibration()])

    run = load_run(folder, derived)

    assert run.calibration == made_up.calibration()
    assert models_in(run.points("gemm").table) == {}


def ops_of(names: Iterable[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def test_what_follows_from_constants_of_another_equation_is_left_out(tmp_path: Path) -> None:
    made_up = whole_run()
    point = made_up.points["gemm"][0]
    made_up.predict(point, transferred_model("driver1-torch2-other"), 1e-5)
    folder = made_up.write(tmp_path / "run")
    calibration = outdate(folder, "gemm")

    run = load_run(folder)

    assert run.outdated == ("gemm",)
    assert run.calibration is not None
    assert ops_of(run.calibration.constants) == ops_of(calibration.constants) - {"gemm"}
    assert ops_of(calibration.probe_errors) == ops_of(calibration.probe_spans) == {"gemm", "cast"}
    assert ops_of(run.calibration.probe_errors) == {"cast"}
    assert ops_of(run.calibration.probe_spans) == {"cast"}
    assert set(models_in(run.points("gemm").table)) == {"torchao", "datasheet"}
    assert set(models_in(run.points("cast").table)) == {"calibrated"}
    assert run.origins() == ["driver1-torch2-other"]


def test_a_folder_that_is_no_run_or_is_damaged_is_refused_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"environment\.jsonl: no such records file; restore it"):
        load_run(tmp_path)
    write_records(tmp_path / "environment.jsonl", [])
    with pytest.raises(RecordsError, match=r"holds 0 Environment .* one; .*doctor --write-"):
        load_run(tmp_path)
    folder = whole_run().write(tmp_path / "run")
    path = folder / "measurements" / "gemm.jsonl"
    content = path.read_bytes()
    write_bytes(path, content[:-40])
    last = content.count(b"\n")
    with pytest.raises(RecordsError, match=rf"measurements/gemm\.jsonl:{last}"):
        load_run(folder).points("gemm")
    (theirs,) = read_records(folder / "calibration.jsonl", Calibration)
    other = replace(theirs, environment_id="driver1-other")
    write_records(folder / "calibration.jsonl", [other])
    with pytest.raises(RunError, match=r"calibration.jsonl is of nvidia-h200 in driver1-other"):
        load_run(folder)


def test_a_study_that_was_interrupted_has_the_visits_of_its_journal(tmp_path: Path) -> None:
    folder = whole_run().write(tmp_path)
    path = folder / "measurements" / "gemm.jsonl"
    sessions, rows = read_records(path, Session), read_records(path, Measurement)
    path.unlink()
    again = [replace(row, visit=1) for row in rows[:3] if row.status == "ok"]
    write_records(folder / "journal" / "gemm.jsonl", [*sessions, *rows, *again])

    table = load_run(folder).points("gemm").table.drop_duplicates("point_id")
    measured = table[table["status"] != NOT_REACHED].set_index("point_id")["samples"].to_dict()

    assert set(measured) == {row.point_id for row in rows}
    once = {row.point_id: len(row.settled_samples_s) for row in rows}
    twice = {row.point_id for row in again}
    assert len(twice) >= 2
    assert measured == {key: n * (2 if key in twice else 1) for key, n in once.items()}


def test_a_sentinel_has_a_row_for_each_of_its_visits(tmp_path: Path) -> None:
    folder = whole_run().write(tmp_path)
    for name in ("plan", "measurements"):
        path = folder / name / "gemm.jsonl"
        records = read_records(path)
        guard = product(64, 64, 64, repeat=9, sweeps=("sentinel",))
        if name == "measurements":
            one = next(r for r in records if isinstance(r, Measurement) and r.status == "ok")
            lines = [replace(one, point_id=guard.point_id, visit=i) for i in range(3)]
            records.append(merged_visits(lines))
        else:
            records.append(guard)
        write_records(path, records)

    frame = load_run(folder).points("gemm").table

    rows = frame[frame["point_id"] == guard.point_id]
    assert list(rows["repeat"]) == [1, 2, 3]
    assert rows["median_s"].nunique() == 1
    drift = sentinel_drift(frame)
    assert len(drift) == 3 + 5, "the sentinel of the made-up run has five repetitions"
    assert set(drift[drift["m"] == 64]["ratio"]) == {1.0}
