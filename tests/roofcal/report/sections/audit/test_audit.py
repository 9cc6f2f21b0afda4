"""Points faster than a roof are found, with a cause; so is every point without a time."""

from pathlib import Path

import pandas as pd
import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.points.run import load_run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.data.audit import not_ok, violations, worst_factor
from roofcal.report.kit.blocks import Prose, Table
from roofcal.report.sections.audit import counted_causes
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


def audit(tmp_path: Path, spec: DeviceSpec | None, made_up: MadeUpRun) -> pd.DataFrame:
    add_constants(made_up)
    (op,) = made_up.points
    return violations(load_run(made_up.write(tmp_path)).points(op, spec).table, CACHE)


def test_nothing_in_the_made_up_world_is_faster_than_the_datasheet(analysis: Analysis) -> None:
    table = analysis.violations
    assert table.empty or set(table["bound"]) == {"calibrated"}


def test_a_point_faster_than_the_datasheet_is_found_with_its_factor(
    tmp_path: Path, h200: DeviceSpec
) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(*BIG), seconds=PEAK_S / 1.25)
    made_up.measure(product(4096, 4096, 4096))

    table = audit(tmp_path, h200, made_up)

    assert list(table["bound"]) == ["datasheet", "calibrated"]
    assert table["factor"][0] == pytest.approx(1.25)
    assert "wrong datasheet" in table["cause"][0]
    assert worst_factor(table, "calibrated") == pytest.approx(1.25 * CEILING_S / PEAK_S)


def test_a_point_far_beyond_any_clock_points_at_the_timer(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(*BIG), seconds=PEAK_S / 3)
    assert "broken timer" in audit(tmp_path, h200, made_up)["cause"][0]


def test_a_point_within_its_interval_is_no_violation(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    time = PEAK_S * 0.999  # the interval reaches above the peak
    made_up.measure(product(*BIG), seconds=time, samples=samples_around(time, spread=0.01))
    assert list(audit(tmp_path, h200, made_up)["bound"]) == ["calibrated"]


def test_too_few_rotating_bytes_point_at_a_warm_cache(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    least = (1 << 26) / 4.8e12
    made_up.measure(stream(1 << 26, "read"), seconds=least / 1.2, rotating_bytes=2 * CACHE)

    table = audit(tmp_path, h200, made_up)

    assert set(table["bound"]) == {"datasheet", "calibrated"}
    assert all("warm cache" in cause for cause in table["cause"])


def test_hot_points_are_allowed_to_be_fast(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    made_up.measure(stream(1 << 20, "read", "hot"), seconds=1e-9)
    assert audit(tmp_path, h200, made_up).empty


def test_zeros_beyond_a_ceiling_are_explained_by_power(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(*BIG, protocol=Protocol(distribution="zeros")), seconds=CEILING_S / 1.1)

    table = audit(tmp_path, h200, made_up)

    assert list(table["bound"]) == ["calibrated"]
    assert table["cause"][0].startswith("zeros")


def test_without_a_datasheet_the_calibrated_roof_is_held_against(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(*BIG), seconds=CEILING_S / 1.1)

    table = audit(tmp_path, None, made_up)

    assert list(table["bound"]) == ["calibrated"]
    assert "ceiling too low" in table["cause"][0]


def test_every_point_without_a_time_is_listed(analysis: Analysis) -> None:
    missing = not_ok(analysis.frames["gemm"])
    assert sorted(missing["status"]) == ["failed", "not_reached", "unsupported", "unsupported"]


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
