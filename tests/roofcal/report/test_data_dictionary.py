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
from roofcal.report.data import cards as card_ratios
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.page import SECTIONS
from roofcal.report.section import CsvTable
from roofcal.report.sections import cards, judged_layers, llm_sweep, quality
from tests.paths import ROOT
from tests.roofcal.report.chapters import shown_by
from tests.roofcal.report.sections.test_health import measured_run

RECORDS: Final[tuple[Any, ...]] = (*get_args(Record), Protocol, Telemetry, EnergyWindow, Ceiling)
LABELS: Final = ("device", "environment_id")  # every table has them: described once
DECLARED: Final = {
    quality.WAITING_FILE: tuple(c.key for c in quality.WAITING),
    "breakeven.csv": breakeven.COLUMNS,
    "llm.csv": llm.COLUMNS,
    llm_sweep.FILE: llm_sweep.COLUMNS,
    judged_layers.FILE: judged_errors.COLUMNS,
    cards.PANEL_FILE: tuple(c.key for c in cards.PANEL),
    cards.FILE: card_ratios.COLUMNS,
}
DATA: Final = ROOT / "docs" / "data.md"
# Tables that take more than the usual made-up runs to have rows.
RUN_OF: Final = {"claims.csv": ("judged",), "health.csv": ("checked",)}
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
def judged(analysis: Analysis) -> Analysis:
    return analyse(analysis.run, analysis.spec, claims=load_claims(ROOT / "config" / "claims"))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    root = tmp_path_factory.mktemp("tables")
    published = measured_run(root / "published", suffix=".jsonl.gz")
    return analyse(measured_run(root / "own"), None, peers=[published])


def columns_of_table(request: pytest.FixtureRequest, name: str) -> list[str]:
    """The columns of a table that only exists once there is something to put in it."""
    key = TABLES[name].parent.name.replace("_", "-")
    for run in RUN_OF.get(name, ("analysis", "gathers", "linears", "narrowed")):
        items = shown_by(request.getfixturevalue(run), key)
        for item in items:
            if isinstance(item, CsvTable) and item.name == name and len(item.frame):
                return list(item.frame.columns)
    raise AssertionError(f"no made-up run has rows of {name}")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.__name__))
def test_every_field_of_a_record_is_described(record: Any) -> None:
    names = described(DOCUMENTED[record.__name__])
    assert names == [field.name for field in fields(record)]


def test_the_tidy_frames_are_described_but_for_the_axes_of_the_op() -> None:
    names = described(DOCUMENTED["<device>_<op>.csv"])
    for op in OPS:
        assert names == [c.name for c in columns_of(op) if c.name not in op.axes]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_of_a_table_is_described(table: str, request: pytest.FixtureRequest) -> None:
    columns = DECLARED.get(table) or columns_of_table(request, table)
    names = described(TABLES[table].read_text(encoding="utf-8"))
    if table == "speedups.csv":  # the last op's axes stand in the same columns
        assert set(names) <= set(columns)
        return
    assert names == [name for name in columns if name not in LABELS]


def test_the_index_of_tables_says_what_the_descriptions_say() -> None:
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| (.+) \|$", DATA.read_text(), re.MULTILINE)
    assert {name for name, _, _ in rows} <= set(TABLES)
    for name, link, text in rows:
        assert (DATA.parent / link).resolve() == TABLES[name]
        assert TABLES[name].read_text(encoding="utf-8").split("\n\n")[1] == text
