"""Points without a result are counted by reason and listed one by one."""

from pathlib import Path

from roofcal.report.data.analysis import Analysis
from tests.roofcal.report.chapters import plain, shown_of
from tests.roofcal.report.synthetic import MadeUpRun, product


def test_points_without_a_time_are_listed_with_their_reason(analysis: Analysis) -> None:
    shown = shown_of(analysis, "missing")
    every = shown.tables["missing-all"]
    assert every.total == len(shown.files["not_ok.csv"]) == shown.tables["reasons"].total == 4
    assert "the worker died (signal SIGSEGV) at &lt;0x0&gt;" in every.body


def test_reasons_that_differ_in_numbers_alone_are_counted_together(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for n in (17, 555, 1001):
        made_up.fail(product(64, n, 64), "unsupported", f"n={n} is no multiple of 16")
    made_up.fail(product(64, 64, 64), "failed", "out of luck")
    analysis = made_up.analysed(tmp_path)
    counted = shown_of(analysis, "missing").tables["reasons"].frame
    assert list(counted["count"]) == [3, 1]
    assert counted["reason"][0] == "n=17 is no multiple of 16"
    assert list(map(plain, counted["example"])) == ["64 x 17 x 64", "64 x 64 x 64"]
