"""Lines of records that are parsed and checked in one go mean what they mean step by step."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.files import iter_lines
from roofcal.core.jsonl import RecordsError, decode, encode, read_single_record
from roofcal.core.records import Calibration, Environment, Measurement
from tests.paths import ROOT
from tests.roofcal.made_up_records import row


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
