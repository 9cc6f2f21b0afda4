"""Violations are counted by roof and cause; a run without any says so."""

from pathlib import Path

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.audit import counted_causes
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import MadeUpRun, add_constants, product


def test_violations_are_counted_by_roof_and_cause(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    for m, factor in ((8192, 1.1), (4096, 1.3)):
        time = 2 * m * 8192 * 8192 / 989.5e12 / factor
        made_up.measure(product(m, 8192, 8192), seconds=time)
    add_constants(made_up)
    analysis = analyse(load_run(made_up.write(tmp_path)), h200)

    first = counted_causes(analysis.violations).iloc[0]

    assert (first["bound"], first["points"]) == ("datasheet", 2)
    assert first["worst"] == pytest.approx(1.3)
    tables = [block for block in blocks_of(analysis, "audit") if isinstance(block, Table)]
    assert [table.id for table in tables] == ["x-causes", "x-violations"]


def test_a_run_without_violations_says_so(bare: Path) -> None:
    last = blocks_of(analyse(load_run(bare), None), "audit")[-1]
    assert last == Prose(text="There is none.")
