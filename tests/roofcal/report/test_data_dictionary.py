"""Every field of every record and every column of every table is described, and no other.

Records and tidy frames are described in docs/data.md, the tables of a section in its folder:
<file>.csv.md.
"""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from roofcal.ask import breakeven
from roofcal.ask.llm import sweep as llm
from roofcal.claims import load_claims
from roofcal.core.records import Ceiling, EnergyWindow, Protocol, Record, Telemetry
from roofcal.judge import errors as judged_errors
from roofcal.ops import OPS
from roofcal.points.columns import columns_of
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.page import SECTIONS
from roofcal.report.sections import judged_layers, llm_sweep, quality
from roofcal.report.sections.claims import claims_table
from tests.paths import ROOT
from tests.roofcal.report.chapters import csv_tables
from tests.roofcal.report.sections.health.test_comparison import measured_run

RECORDS: Final[tuple[Any, ...]] = (*get_args(Record), Protocol, Telemetry, EnergyWindow, Ceiling)
LABELS: Final = ("device", "environment_id")  # every table has them: described once
DECLARED: Final = {
    quality.WAITING_FILE: tuple(c.key for c in quality.WAITING),
    "breakeven.csv": breakeven.COLUMNS,
    "llm.csv": llm.COLUMNS,
    llm_sweep.FILE: llm_sweep.COLUMNS,
    judged_layers.FILE: judged_errors.COLUMNS,
    quality.PANEL_FILE: tuple(c.key for c in quality.PANEL),
}
DATA: Final = ROOT / "docs" / "data.md"
TABLES: Final = {
    path.stem: path for section in SECTIONS for path in section.folder.glob("*.csv.md")
}


def described(text: str) -> list[str]:
    """The names in the first column of a table of Markdown."""
    return re.findall(r"^\| `(\w+)` \| \w.+ \|$", text, re.MULTILINE)


def headings(path: Path) -> dict[str, str]:
    """Heading -> the text below it."""
    text = path.read_text(encoding="utf-8")
    return dict(re.findall(r"^### (.+)\n((?:(?!##).*\n?)*)", text, re.MULTILINE))


DOCUMENTED: Final = headings(DATA)


@pytest.fixture(scope="module")
def made_up(gathers: Analysis, linears: Analysis, narrowed: Analysis) -> list[Analysis]:
    return [gathers, linears, narrowed]


@pytest.fixture(scope="module")
def written(
    analysis: Analysis, made_up: list[Analysis], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """File name -> columns of the tables that only exist once there is something to put in."""
    root = tmp_path_factory.mktemp("tables")
    published = measured_run(root / "published", suffix=".jsonl.gz")
    health = analyse(measured_run(root / "own"), None, peers=[published])
    columns: dict[str, Any] = {}
    for one in (*made_up, health, analysis):
        columns |= {name: list(frame.columns) for name, frame in csv_tables(one) if len(frame)}
    judged = analyse(analysis.run, analysis.spec, claims=load_claims(ROOT / "config" / "claims"))
    return columns | {"claims.csv": list(claims_table(judged.claims).columns)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.__name__))
def test_every_field_of_a_record_is_described(record: Any) -> None:
    names = described(DOCUMENTED[record.__name__])
    assert names == [field.name for field in fields(record)]


def test_the_tidy_frames_are_described_but_for_the_axes_of_the_op() -> None:
    names = described(DOCUMENTED["<device>_<op>.csv"])
    for op in OPS:
        assert names == [c.name for c in columns_of(op) if c.name not in op.axes]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_of_a_table_is_described(table: str, written: dict[str, Any]) -> None:
    columns = DECLARED.get(table) or written[table]
    names = described(TABLES[table].read_text(encoding="utf-8"))
    if table == "speedups.csv":  # the last op's axes stand in the same columns
        assert set(names) <= set(columns)
        return
    assert names == [name for name in columns if name not in LABELS]


def test_no_table_is_left_out(written: dict[str, Any]) -> None:
    tables = {name for name in written if not name.startswith(("nvidia-", "cpu-"))} | set(DECLARED)
    assert tables <= set(TABLES)


def test_the_index_of_tables_says_what_the_descriptions_say() -> None:
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| (.+) \|$", DATA.read_text(), re.MULTILINE)
    assert {name for name, _, _ in rows} <= set(TABLES)
    for name, link, text in rows:
        assert (DATA.parent / link).resolve() == TABLES[name]
        assert TABLES[name].read_text(encoding="utf-8").split("\n\n")[1] == text
