"""Points faster than a roof are found, with a cause; so is every point without a time."""

from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import PlanPoint, Protocol
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.quality import violations, worst_factor
from roofcal.report.kit.blocks import Table
from tests.roofcal.report.chapters import blocks_of
from tests.roofcal.report.synthetic import (
    MadeUpRun,
    add_constants,
    product,
    samples_around,
    stream,
)

BIG = (8192, 8192, 8192)
PEAK_S = 2 * 8192**3 / 989.5e12
CEILING_S = 2 * 8192**3 / (600e12 * 1.02)
CACHE = 60 << 20
BOTH, CALIBRATED = ["datasheet", "calibrated"], ["calibrated"]
WITHIN = samples_around(PEAK_S * 0.999, spread=0.01)  # the interval reaches above the peak
ZEROS = Protocol(distribution="zeros")


def timed(point: PlanPoint, seconds: float, **changes: Any) -> MadeUpRun:
    """A calibrated run of one point."""
    made_up = MadeUpRun()
    add_constants(made_up)
    made_up.measure(point, seconds, **changes)
    return made_up


@pytest.mark.parametrize(
    ("made_up", "bounds", "cause"),
    [
        (timed(product(*BIG), PEAK_S / 1.25), BOTH, "wrong datasheet"),
        (timed(product(*BIG), PEAK_S / 3), BOTH, "broken timer"),
        (timed(product(*BIG), PEAK_S * 0.999, samples=WITHIN), CALIBRATED, "ceiling too low"),
        (
            timed(stream(1 << 26, "read"), (1 << 26) / 5.76e12, rotating_bytes=2 * CACHE),
            BOTH,
            "warm cache",
        ),
        (timed(stream(1 << 20, "read", "hot"), 1e-9), [], ""),
        (timed(product(*BIG, protocol=ZEROS), CEILING_S / 1.1), CALIBRATED, "zeros"),
    ],
)
def test_a_point_faster_than_a_roof_is_found_with_its_likely_cause(
    tmp_path: Path, h200: DeviceSpec, made_up: MadeUpRun, bounds: list[str], cause: str
) -> None:
    run = load_run(made_up.write(tmp_path))
    (op,) = made_up.points
    table = violations(run.points(op, h200).table, CACHE)
    assert sorted(table["bound"], reverse=True) == bounds
    causes = dict(zip(table["bound"], table["cause"], strict=True))
    assert all(causes[bound].startswith(cause) for bound in bounds[:1])
    assert cause != "warm cache" or len(set(causes.values())) == 1
    without_datasheet = violations(run.points(op).table, CACHE)
    assert list(without_datasheet["bound"]) == bounds[-1:]


def test_the_factor_is_over_the_time_of_each_roof(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    for m, factor in ((8192, 1.1), (4096, 1.3)):
        made_up.measure(product(m, 8192, 8192), 2 * m * 8192 * 8192 / 989.5e12 / factor)
    add_constants(made_up)
    analysis = made_up.analysed(tmp_path, h200)

    assert analysis.violations["factor"][0] == pytest.approx(1.3)
    expected = pytest.approx(1.3 * CEILING_S / PEAK_S)
    assert worst_factor(analysis.violations, "calibrated") == expected
    tables = [block for block in blocks_of(analysis, "audit") if isinstance(block, Table)]
    assert [table.id for table in tables] == ["x-causes", "x-violations"]
    first = tables[0].frame.iloc[0]
    assert (first["bound"], first["points"]) == ("datasheet", 2)
    assert first["worst"] == pytest.approx(1.3)


def test_nothing_in_the_made_up_world_is_faster_than_the_datasheet(analysis: Analysis) -> None:
    table = analysis.violations
    assert table.empty or set(table["bound"]) == {"calibrated"}
