"""The section on fused all-gathers: a GPU, a GPU without rows, a CPU with gloo, a CPU without."""

from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.points.run import load_run
from roofcal.report.chapter import ChapterBuilder
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.blocks import FigureBlock, Prose, Table
from roofcal.report.sections.gathered import NOT_FUSED, NOT_MEASURED
from tests.roofcal.report.chapters import blocks_of, csv_tables
from tests.roofcal.report.gathers import gathered_run, gloo_run


@pytest.fixture(scope="module")
def gathers(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Analysis:
    run = load_run(gathered_run().write(tmp_path_factory.mktemp("gathers")))
    return analyse(run, h200)


def blocks(analysis: Analysis) -> list[Any]:
    return blocks_of(analysis, "gathered")


def test_a_gpu_has_every_figure_and_table(gathers: Analysis) -> None:
    shown = blocks(gathers)
    assert not [b.text for b in shown if isinstance(b, Prose) and b.quiet]
    figures = [b.id.removeprefix("x-figure-") for b in shown if isinstance(b, FigureBlock)]
    names = ("gathered_speedup", "gathered_hidden", "gathered_ranks")
    assert figures == [*(f"{n}-all_gather_matmul" for n in names), "links-probe_link"]
    tables = [b.id.removeprefix("x-") for b in shown if isinstance(b, Table)]
    assert tables == ["gathered-summary", "gathered-points", "gathered-ranks", "links"]
    files = set(dict(csv_tables(gathers)))
    sources = {b.source for b in shown if isinstance(b, FigureBlock | Table) and b.source}
    assert sources <= files


def test_tables_of_several_devices_say_on_how_many(gathers: Analysis) -> None:
    chapter = ChapterBuilder(gathers).chapter("x", 0, has_files=False)
    tables = {b.id: b for s in chapter.sections for b in s.blocks if isinstance(b, Table)}
    for name in ("points-all_gather_matmul", "speedups-all_gather_matmul"):
        assert "world_size" in [column.key for column in tables[f"x-{name}"].columns]
    assert "world_size" not in [column.key for column in tables["x-points-gemm"].columns]
    figures = [b.id for s in chapter.sections for b in s.blocks if isinstance(b, FigureBlock)]
    assert not [name for name in figures if "speedup_by" in name]


def test_a_gpu_without_rows_says_what_to_run(analysis: Analysis) -> None:
    (only,) = blocks(analysis)
    assert isinstance(only, Prose)
    assert (only.quiet, only.text) == (True, NOT_MEASURED)
    assert "'ops=[all_gather_matmul]'" in only.text


def test_a_cpu_shows_its_gloo_rows_and_what_it_cannot_say(tmp_path: Path) -> None:
    shown = blocks(analyse(load_run(gloo_run().write(tmp_path)), None))
    quiet = [b.text for b in shown if isinstance(b, Prose) and b.quiet]
    assert quiet[0] == NOT_FUSED
    assert quiet[1].startswith("Not predicted on 4 devices")
    tables = [b for b in shown if isinstance(b, Table)]
    assert [t.id for t in tables] == ["x-gathered-points", "x-gathered-ranks", "x-links"]
    assert tables[0].total == 2
    assert "gloo_then_gemm" in tables[0].body
    assert "gloo" in tables[2].body


def test_a_cpu_without_rows_has_no_such_section(bare: Path) -> None:
    assert blocks(analyse(load_run(bare), None)) == []
