"""Points faster than a roof are found, with their likely cause."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import PlanPoint, Protocol
from roofcal.points.run import load_run
from roofcal.report.data.analysis import analyse
from tests.roofcal.report.chapters import shown_of
from tests.roofcal.report.synthetic import (
    GPU,
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
WITHIN = {"samples": samples_around(PEAK_S * 0.999, spread=0.01)}  # reaches above the peak
WARM = {"rotating_bytes": 2 * CACHE}
ZEROS = Protocol(distribution="zeros")


@pytest.mark.parametrize(
    ("measured", "bounds", "cause"),
    [
        ((product(*BIG), PEAK_S / 1.25, {}), BOTH, "wrong datasheet"),
        ((product(*BIG), PEAK_S / 3, {}), BOTH, "broken timer"),
        ((product(*BIG), PEAK_S * 0.999, WITHIN), CALIBRATED, "ceiling too low"),
        ((stream(1 << 26, "read"), (1 << 26) / 5.76e12, WARM), BOTH, "warm cache"),
        ((stream(1 << 20, "read", "hot"), 1e-9, {}), [], ""),
        ((product(*BIG, protocol=ZEROS), CEILING_S / 1.1, {}), CALIBRATED, "zeros"),
    ],
)
def test_a_point_faster_than_a_roof_is_found_with_its_likely_cause(
    tmp_path: Path,
    h200: DeviceSpec,
    measured: tuple[PlanPoint, float, dict[str, Any]],
    bounds: list[str],
    cause: str,
) -> None:
    made_up = MadeUpRun(replace(GPU, last_level_cache_bytes=CACHE))
    add_constants(made_up)
    point, seconds, changes = measured
    made_up.measure(point, seconds, **changes)
    run = load_run(made_up.write(tmp_path))
    table = shown_of(analyse(run, h200), "audit").files["violations.csv"]
    assert sorted(table["bound"], reverse=True) == bounds
    causes = dict(zip(table["bound"], table["cause"], strict=True))
    assert all(causes[bound].startswith(cause) for bound in bounds[:1])
    assert cause != "warm cache" or len(set(causes.values())) == 1
    without_datasheet = shown_of(analyse(run, None), "audit").files["violations.csv"]
    assert list(without_datasheet["bound"]) == bounds[-1:]


def test_the_factor_is_over_the_time_of_each_roof(tmp_path: Path, h200: DeviceSpec) -> None:
    made_up = MadeUpRun()
    for m, factor in ((8192, 1.1), (4096, 1.3)):
        made_up.measure(product(m, 8192, 8192), 2 * m * 8192 * 8192 / 989.5e12 / factor)
    add_constants(made_up)
    shown = shown_of(made_up.analysed(tmp_path, h200), "audit")
    assert shown.files["violations.csv"]["factor"][0] == pytest.approx(1.3)
    causes = shown.tables["causes"].frame.set_index("bound")
    assert causes["points"].to_dict() == {"datasheet": 2, "calibrated": 2}
    expected = {"datasheet": 1.3, "calibrated": 1.3 * CEILING_S / PEAK_S}
    assert causes["worst"].to_dict() == pytest.approx(expected)
    assert shown.tables["violations"].total == 4
