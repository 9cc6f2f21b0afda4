"""The trial: a section is one folder and one line in a list, a quantity of a point is one line.

Both are written into a copy of the checkout. The section's table, figure, caption and CSV file come
out on the page, under its question; the quantity in tables, files and what charts say of a point.
"""

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofcal.points.run import load_run
from tests.paths import ROOT
from tests.roofcal.report.pages import unpack

FILES = {
    "__init__.py": '''"""How many points each op has."""

from collections.abc import Iterator
from typing import Final

import pandas as pd

from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.kit.charts import Axis, Layer, Panel, Picture, Tip
from roofcal.report.kit.columns import count, text
from roofcal.report.section import CsvTable, Item, Section

FILE: Final = "toy.csv"
COLUMNS: Final = (text("op", "op"), count("points", "points"))


def show(analysis: Analysis) -> Iterator[Item]:
    rows = [{"op": op, "points": len(frame)} for op, frame in analysis.frames.items()]
    points = pd.DataFrame(rows, columns=["op", "points"])
    yield CsvTable(FILE, points)
    yield Prose(text="A toy counts points.")
    yield draw_toy(points)
    yield Table("toy", "Points by op", points, COLUMNS, FILE)


def draw_toy(points: pd.DataFrame) -> Picture:
    return Picture(
        key="toy_dots",
        op="gemm",
        source=FILE,
        x=Axis("points", "points", "linear"),
        y=Axis("op", "", "names", order=list(points["op"])),
        layers=[Layer("dots")],
        tables={"points": points.assign(colour="#0072b2", marker="s")},
        panels=[Panel(height=100)],
        tips=[Tip("points", "points", "count")],
        alt="Dots.",
        facts=f"{points['points'].sum()} points.",
    )


SECTION = Section("A toy", "how", show)
''',
    "toy_dots.md": """# Points of a toy

One dot per op.

The dot lies as far out as the op has points in its plan, whatever became of them: points without a
time count as those with one. Nothing was timed for this figure, so it has no spread.
""",
    "toy.csv.md": "# toy.csv\n\nPoints by op.\n\n| column | meaning |\n|---|---|\n"
    "| `op` | what is computed |\n| `points` | points |\n",
}
LAST = '    "provenance",\n'
LAST_QUANTITY = '    Column("integrated_w", "number", _integrated, where="board_w"),\n'
QUANTITY = """\
    Column("longest_s", "number", lambda p: max(p.row.latency_samples_s, default=None), unit="s",
           where="longest_s", label="longest", note="of all samples", hover="longest sample"),
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a report is made of, with the toy in it."""
    copy = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("published")  # compiled modules are copied: 2 s less
    for folder in ("roofcal", "kernels", "reports", "config", "docs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    toy = copy / "roofcal" / "report" / "sections" / "toy"
    toy.mkdir()
    for name, text in FILES.items():
        (toy / name).write_text(text, encoding="utf-8")
    page = copy / "roofcal" / "report" / "page.py"
    order = page.read_text(encoding="utf-8")
    assert order.count(LAST) == 1
    page.write_text(order.replace(LAST, f'{LAST}    "toy",\n'), encoding="utf-8")
    columns = copy / "roofcal" / "points" / "columns.py"
    text = columns.read_text(encoding="utf-8")
    assert text.count(LAST_QUANTITY) == 1
    columns.write_text(text.replace(LAST_QUANTITY, LAST_QUANTITY + QUANTITY), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def report(checkout: Path, bare: Path) -> Path:
    """Its report of a run of few figures: those of a whole run take 5 s more to draw."""
    out = checkout / "results" / "report.html"
    command = [sys.executable, "-m", "roofcal", "report", "--run", str(bare), "--out", str(out)]
    command += ["--figures", str(out.parent / "figures")]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    return out


@pytest.mark.slow
def test_the_section_is_on_the_page_with_its_table_figure_caption_and_csv(report: Path) -> None:
    page = report.with_name("details.html").read_text(encoding="utf-8")
    how = page[page.index('id="cpu-made-up-how"') :]
    titles = [line for line in how.splitlines() if line.startswith("<summary><h4>")]
    assert titles[-1] == "<summary><h4>A toy</h4></summary>"
    assert "<p>A toy counts points.</p>" in how
    assert '<div class="grid" id="cpu-made-up-toy">' in page
    assert '<figure id="cpu-made-up-figure-toy_dots-gemm" ' in page
    assert "<h5>Points of a toy " in page
    assert "<p>One dot per op.</p>" in page
    assert '<a class="data" href="tables/toy.csv" download="toy.csv">' in page
    assert 'data-file="toy.csv"' in page
    table = (report.parent / "tables" / "toy.csv").read_text()
    assert table.splitlines()[0] == "device,environment_id,op,points"
    figures = report.parent / "figures" / "How_was_this_measured" / "cpu-made-up"
    assert (figures / "toy_dots.gemm.svg").is_file()


@pytest.mark.slow
def test_the_quantity_is_in_tables_files_and_charts(report: Path, bare: Path) -> None:
    longest = max(load_run(bare).points("gemm").table["median_s"])
    with (report.parent / "tables" / "cpu-made-up_gemm.csv").open() as file:
        of_file = [float(row["longest_s"]) for row in csv.DictReader(file)]
    assert max(of_file) >= longest
    page = report.with_name("details.html").read_text(encoding="utf-8")
    assert 'title="of all samples">longest<small>' in page
    (charts,) = re.findall(r'id="chart-data">(.*?)</script>', page, re.DOTALL)
    assert "longest sample" in unpack(charts)


@pytest.mark.slow
def test_the_tests_of_the_list_and_of_the_columns_hold_with_it(checkout: Path) -> None:
    for folder in ("tests", "requirements"):
        shutil.copytree(ROOT / folder, checkout / folder, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", checkout / "pyproject.toml")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-k", "toy or folder or all_questions or tidy or index"]  # others take seconds
    names = ("test_page.py", "test_data_dictionary.py", "kit/test_blocks.py")
    command += [f"tests/roofcal/report/{name}" for name in names]
    done = subprocess.run(command, cwd=checkout, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
