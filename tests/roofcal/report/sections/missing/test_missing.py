"""Points without a result are counted by reason and listed one by one."""

from pathlib import Path

from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import not_ok
from roofcal.report.data.tidy import with_shape
from roofcal.report.kit.blocks import Table
from roofcal.report.sections.missing import counted_reasons
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import MadeUpRun, product


def test_points_without_a_time_are_listed_with_their_reason(analysis: Analysis) -> None:
    counted, every = [b for b in blocks_of(analysis, "missing") if isinstance(b, Table)]
    assert every.total == 4
    assert "the worker died (signal SIGSEGV) at &lt;0x0&gt;" in every.body
    assert counted.total == 4


def test_reasons_that_differ_in_numbers_alone_are_counted_together(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for n in (17, 555, 1001):
        made_up.fail(product(64, n, 64), "unsupported", f"n={n} is no multiple of 16")
    made_up.fail(product(64, 64, 64), "failed", "out of luck")
    missing = not_ok(made_up.table(tmp_path))

    counted = counted_reasons(with_shape(missing))

    assert list(counted["count"]) == [3, 1]
    assert counted["reason"][0] == "n=17 is no multiple of 16"
    assert counted["example"][0] == "64 \N{MULTIPLICATION SIGN} 17 \N{MULTIPLICATION SIGN} 64"
    assert list(counted_reasons(missing)["example"]) == ["64 x 17 x 64", "64 x 64 x 64"]
