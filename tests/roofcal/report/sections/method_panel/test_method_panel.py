"""The panel holds the same points by every method against graph replay."""

from pathlib import Path

import pytest

from roofcal.core.records import Protocol
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.tidy import protocol_name
from roofcal.report.kit.blocks import Prose
from roofcal.report.sections.method_panel import SECTION, method_panel
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import MadeUpRun, product


def test_the_panel_holds_each_method_against_graph_replay(analysis: Analysis) -> None:
    panel = SECTION.contents(analysis).rows
    ratios = {protocol_name(row): row["ratio"] for row in panel.to_dict("records")}

    assert ratios == pytest.approx(
        {
            "graph, hot": 1.0,
            "graph, cold, zeros": 0.9,
            "events + flush, cold": 1.5,
            "profiler, cold": 1.2,
            "wall, cold": 3.0,
            "graph, cold": 1.0,
        }
    )


def test_a_panel_point_without_its_standard_time_has_no_ratio(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, protocol=Protocol(method="wall"), sweeps=("panel_cpu",)))
    made_up.fail(product(64, 64, 64, sweeps=("panel_cpu",)), "failed", "x")

    panel = method_panel(load_run(made_up.write(tmp_path)).points("gemm").table)

    assert len(panel) == 1
    assert panel["ratio"].isna().all()


def test_a_run_without_a_panel_says_so(bare: Path) -> None:
    blocks = blocks_of(analyse(load_run(bare), None), "method-panel")
    assert blocks == [Prose(text="This run has no method panel.", quiet=True)]
    assert SECTION.contents(analyse(load_run(bare), None)).rows.empty
