"""docs/data.md names every field of every record and every column of every table, and no other."""

import re
from dataclasses import fields
from typing import Any, Final

import pytest

from roofcal.ask import breakeven_map
from roofcal.ask.llm import csv_table as llm
from roofcal.calibrate import learning
from roofcal.claims.ledgers import load_claims
from roofcal.core.records import (
    Calibration,
    Ceiling,
    Environment,
    Measurement,
    PlanPoint,
    Prediction,
    Protocol,
    Session,
    Telemetry,
)
from roofcal.ops import OPS
from roofcal.report.data import prediction_errors as accuracy
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.loading import load_run
from roofcal.report.data.tidy import columns_of
from roofcal.report.sections.claims.section import claims_table
from roofcal.report.sections.gathered import overlap as gathered_section
from roofcal.report.sections.linear_accuracy import tables as linear_accuracy_section
from roofcal.report.sections.mixed import tables as mixed_section
from roofcal.report.sections.transfer import table as transfer_section
from roofcal.report.write import csv_tables
from tests.paths import ROOT
from tests.roofcal.report.narrow import narrow_run
from tests.roofcal.report.sections.health.test_comparison import made

RECORDS: Final[tuple[Any, ...]] = (
    *(PlanPoint, Protocol, Environment, Session, Measurement),
    *(Telemetry, Calibration, Ceiling, Prediction),
)
LABELS: Final = ("device", "environment_id")  # of every table, said once
DECLARED: Final = {
    "error_by_regime.csv": accuracy.COLUMNS,
    "learning.csv": learning.COLUMNS,
    "breakeven.csv": breakeven_map.COLUMNS,
    "llm.csv": llm.COLUMNS,
    transfer_section.SOURCE: transfer_section.KEYS,
    gathered_section.SOURCE: tuple(c.key for c in gathered_section.OVERLAP),
    mixed_section.ROOFS_SOURCE: tuple(c.key for c in mixed_section.ROOF_COLUMNS),
    linear_accuracy_section.ACCUMULATION_SOURCE: tuple(
        c.key for c in linear_accuracy_section.ACCUMULATION
    ),
    linear_accuracy_section.SPEED_SOURCE: (
        *(c.key for c in linear_accuracy_section.SPEED),
        "recipe",
    ),
}


def sections() -> dict[str, tuple[str, list[str]]]:
    """Heading -> (its text, the names in the first column of its table), of docs/data.md."""
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    parts = re.findall(r"^### (.+)\n((?:(?!##).*\n?)*)", text, re.MULTILINE)
    return {
        name: (body, re.findall(r"^\| `(\w+)` \| \w.+ \|$", body, re.MULTILINE))
        for name, body in parts
    }


DOCUMENTED: Final = sections()


@pytest.fixture(scope="module")
def written(analysis: Analysis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """File name -> columns of the tables that only exist once there is something to put in."""
    root = tmp_path_factory.mktemp("tables")
    published = made(root / "published", suffix=".jsonl.gz")
    health = analyse(made(root / "own"), None, peers=[published])
    mixed = analyse(load_run(narrow_run().write(root / "narrow")), None)
    found: dict[str, Any] = {}
    for one in (mixed, health, analysis):
        found |= {name: list(frame.columns) for name, frame in csv_tables(one) if len(frame)}
    judged = analyse(analysis.run, analysis.spec, claims=load_claims(ROOT / "config" / "claims"))
    return found | {"claims.csv": list(claims_table(judged.claims).columns)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.__name__))
def test_every_field_of_a_record_is_described(record: Any) -> None:
    assert DOCUMENTED[record.__name__][1] == [field.name for field in fields(record)]


def test_the_tidy_frames_are_described_with_the_axes_of_every_op() -> None:
    text, names = DOCUMENTED["<device>_<op>.csv"]
    for op in OPS:
        assert names == [name for name in columns_of(op) if name not in op.axes]
        assert ", ".join(f"`{axis}`" for axis in op.axes) in text


@pytest.mark.parametrize("table", sorted(set(DOCUMENTED) - {r.__name__ for r in RECORDS}))
def test_every_column_of_a_table_is_described(table: str, written: dict[str, Any]) -> None:
    if table.startswith("<"):
        assert any(name.startswith("nvidia-h200_") for name in written)
        return
    columns = DECLARED.get(table) or written[table]
    if table == "speedups.csv":  # the last op's axes stand in the same columns
        assert set(DOCUMENTED[table][1]) <= set(columns)
        return
    assert DOCUMENTED[table][1] == [name for name in columns if name not in LABELS]


def test_no_table_is_left_out(written: dict[str, Any]) -> None:
    tables = {name for name in written if not name.startswith(("nvidia-", "cpu-"))} | set(DECLARED)
    assert tables <= set(DOCUMENTED)
