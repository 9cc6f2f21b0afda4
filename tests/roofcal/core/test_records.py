"""Records: identity, round trips, and files that are damaged, newer or cannot be written."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.files import iter_lines
from roofcal.core.jsonl import (
    SCHEMA_VERSION,
    RecordsError,
    append_record,
    decode,
    encode,
    read_records,
    read_single_record,
    salvage_records,
    write_records,
)
from roofcal.core.records import (
    Calibration,
    Environment,
    Measurement,
    PlanPoint,
    Protocol,
    Record,
    Visit,
)
from roofcal.models.datasheet import longest_part
from tests.paths import ROOT
from tests.roofcal.made_up_records import exactly, point_of, readings, row, session

POINT = point_of("gemm", "bf16", {"m": 1, "n": 2, "k": 3}, provider="cublaslt")
ENVIRONMENT = Environment(
    device="d", vendor="cpu", device_name="D", compute_units=2, torch="2", python="3"
)
MEASUREMENT = row(
    *(3e-6, 1e-6, 2e-6),
    point_id=POINT.point_id,
    warmup_samples=1,
    slice_starts=(0, 1),
    telemetry=readings((0,), throttle_reasons=(("power_cap",),)),
)
RECORDS: list[Record] = [
    POINT,
    ENVIRONMENT,
    session(command="x", timing={"slice_s": 0.02}, started_utc="now"),
    MEASUREMENT,
    Calibration(device="d", environment_id="e", constants={"x": exactly(1, "s", half=1)}),
    longest_part(POINT, "m", math_s=0.5, dram_s=1.0),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_survives_its_line(record: Record) -> None:
    assert decode(encode(record)) == record


def test_points_are_told_apart_by_what_changes_the_number_and_grouped_by_shape() -> None:
    other = replace(POINT, shape={"k": 3, "n": 2, "m": 1}, sweeps=("a", "b"))
    assert other.point_id == POINT.point_id
    assert replace(POINT, recipe="fp32", provider="x").group_key == POINT.group_key
    assert replace(POINT, shape={"m": 1, "n": 2, "k": 9}).group_key != POINT.group_key
    assert replace(POINT, repeat=1).group_key != POINT.group_key


def test_what_changes_the_number_changes_the_point() -> None:
    shape = {"m": 1, "n": 2, "k": 4}
    protocols = (Protocol(cache="hot"), Protocol(method="wall"), Protocol(distribution="zeros"))
    changed: list[dict[str, Any]] = [
        *({"recipe": "fp32"}, {"provider": "triton"}, {"device": "other"}),
        *({"repeat": 1}, {"world_size": 2}, {"shape": shape}),
        *({"protocol": protocol} for protocol in protocols),
    ]
    ids = {POINT.point_id, *(replace(POINT, **change).point_id for change in changed)}
    assert len(ids) == 1 + len(changed)


def test_the_environment_id_names_versions_and_depends_on_every_field() -> None:
    assert ENVIRONMENT.environment_id.startswith("torch2-")
    newer = replace(ENVIRONMENT, driver="580")
    assert newer.environment_id.startswith("driver580-torch2-")
    assert ENVIRONMENT.environment_id == "torch2-339292fb", "ids from before CPU quotas hold"
    for change in ({"python": "3.12"}, {"cpu_quota_cores": 1.5}):
        assert replace(ENVIRONMENT, **change).environment_id != ENVIRONMENT.environment_id


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_files_hold_records_in_order_compressed_or_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / "new/folder" / name
    with pytest.raises(RecordsError, match=f"{name}: no such records file"):
        read_records(path)
    write_records(path, RECORDS)
    assert name == "r.jsonl" or path.read_bytes()[4:8] == bytes(4), "no time of packing"
    if name == "r.jsonl":
        path.unlink()
        for record in RECORDS:
            append_record(path, record)
    assert read_records(path) == RECORDS
    assert read_records(path, PlanPoint) == [POINT]
    assert read_records(path, PlanPoint, Environment) == [POINT, ENVIRONMENT]


def test_a_bad_line_is_named_and_the_good_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f"{encode(POINT)}\nnonsense\n{encode(ENVIRONMENT)}\n")
    with pytest.raises(RecordsError, match=r"r\.jsonl:2: not a record") as caught:
        read_records(path)
    assert "2 good lines" in str(caught.value)
    good, bad = salvage_records(path)
    assert good == [POINT, ENVIRONMENT]
    assert len(bad) == 1
    packed = gzip.compress("".join(encode(POINT) + "\n" for _ in range(2000)).encode())
    cut_off = tmp_path / "r.jsonl.gz"
    cut_off.write_bytes(packed[: len(packed) // 2])
    good, bad = salvage_records(cut_off)
    assert 0 < len(good) < 2000
    assert "cut off or damaged here" in str(bad[-1])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (encode(POINT).replace('"provider"', '"providr"'), "PlanPoint.provider: Field required"),
        (encode(POINT).replace('"bf16"', "16"), "PlanPoint.recipe"),
        (encode(POINT).replace("PlanPoint", "Plan"), "not a record"),
        ("[]", "not a record"),
        (encode(MEASUREMENT).replace('"ok"', '"good"'), "Measurement.status"),
        (
            encode(POINT).replace('"schema_version":2', f'"schema_version":{SCHEMA_VERSION + 1}'),
            "schema version 4, this roofcal reads 3 and older; use",
        ),
    ],
)
def test_a_wrong_record_says_which_field(line: str, says: str) -> None:
    with pytest.raises(RecordsError, match="here:7: ") as caught:
        decode(line, "here:7")
    assert says in str(caught.value)


def test_records_of_the_first_schema_are_read() -> None:
    """Published files were written before there was a quantisation error."""
    body = json.loads(encode(MEASUREMENT))
    del body["quantisation_error"]
    decoded = decode(json.dumps(body | {"schema_version": 1}))
    assert decoded == replace(MEASUREMENT, quantisation_error=None)


VISITED = replace(
    MEASUREMENT,
    latency_samples_s=tuple(float(i) for i in range(1, 13)),
    warmup_samples=1,
    slice_starts=(0, 1, 4, 6, 8, 10),
    unsettled_samples=(0, 1, 0, 0, 0, 1),
    visits=(
        Visit(first_sample=0, warmup_samples=1, session_id="first"),
        Visit(first_sample=6, warmup_samples=2, session_id="second", started_s=100.0),
    ),
    telemetry=readings((0, 1, 3, 7, 9, 11)),
)


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({"output_errors": {"output": 0.03, "grad_weight": 0.002}}, 2),
        ({"fastest_rank_s": (1e-6,) * 3, "rank_medians_s": (2e-6, 1e-6)}, 2),
        ({"peak_bytes": 1 << 30}, 3),
        ({"visits": (Visit(first_sample=0, warmup_samples=1, session_id="first"),)}, 3),
    ],
)
def test_records_without_later_fields_are_what_they_were_to_the_byte(
    change: dict[str, Any], version: int
) -> None:
    before, changed = json.loads(encode(MEASUREMENT)), replace(MEASUREMENT, **change)
    assert not change.keys() & before.keys()
    assert (before["schema_version"], json.loads(encode(changed))["schema_version"]) == (2, version)
    assert decode(encode(changed)) == changed


def test_samples_count_behind_the_warm_up_of_their_visit_and_start_of_their_turn() -> None:
    assert VISITED.settled_turns_s == (((3.0, 4.0), (5.0, 6.0)), ((9.0, 10.0), (12.0,)))
    assert VISITED.settled_samples_s == (3.0, 4.0, 5.0, 6.0, 9.0, 10.0, 12.0)
    assert VISITED.settled_readings == (2, 4, 5)
    assert MEASUREMENT.settled_samples_s == (1e-6, 2e-6)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unsettled_samples": (1,)}, "unsettled_samples: has 1 of 6 turns"),
        ({"visits": VISITED.visits[1:]}, "visits: their first samples do not rise from 0"),
        (
            {"visits": (replace(VISITED.visits[0], warmup_samples=7), VISITED.visits[1])},
            "visits: one warms up for more samples than it has",
        ),
    ],
)
def test_visits_that_cannot_be_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordsError, match=says):
        decode(encode(replace(VISITED, **changes)))


@pytest.mark.parametrize("name", ["calibration.jsonl", "measurements/linear.jsonl.gz"])
def test_a_line_as_it_is_written_means_what_its_keys_mean_in_any_order(name: str) -> None:
    """Lines as `encode` writes them are parsed and checked in one go, others step by step."""
    (file,) = (ROOT / "reports/published/nvidia-h200").glob(f"*/{name}")
    for _, line in iter_lines(file):
        assert isinstance(line, bytes)
        turned = json.dumps(dict(reversed(json.loads(line).items())))
        assert not turned.startswith('{"record"')
        assert decode(line) == decode(turned)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1e-6", "1e999"])
def test_a_time_that_cannot_be_is_refused_in_a_line_as_it_is_written(number: str) -> None:
    line = encode(row(0.5)).replace("[0.5]", f"[{number}]").encode()
    with pytest.raises(RecordsError):
        decode(line)


@pytest.mark.parametrize("is_escaped", [True, False])
def test_texts_of_records_cannot_steer_a_terminal(is_escaped: bool) -> None:
    reason = "two\nlines, \x1b[2J\x9b31m\u202e, 3 µs"
    line = encode(row(status="failed", reason=reason, kernel_names=("a\rb",)))
    line = line if is_escaped else line.replace(r"\u009b", "\x9b").replace(r"\u202e", "\u202e")
    read = decode(line.encode())
    assert isinstance(read, Measurement)
    assert read.reason == "two\nlines, " + r"\x1b[2J\x9b31m\u202e" + ", 3 µs"
    assert read.kernel_names == (r"a\rb",)


@pytest.mark.parametrize(
    ("kind", "way_out"),
    [
        (Calibration, "restore it$"),
        (Environment, "restore it, or take it on .*: roofcal doctor --write-environment results$"),
    ],
)
def test_a_file_without_its_one_record_is_to_be_restored(
    kind: Any, way_out: str, tmp_path: Path
) -> None:
    """Nothing makes a published calibration again, or the environment that a study lists."""
    path = tmp_path / "one.jsonl"
    with pytest.raises(RecordsError, match=rf"one\.jsonl: no such records file; {way_out}"):
        read_single_record(path, kind)
    path.touch()
    with pytest.raises(RecordsError, match=f"0 {kind.__name__} records instead of one; {way_out}"):
        read_single_record(path, kind)
