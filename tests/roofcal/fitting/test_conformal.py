"""Half-widths by group: they cover, borrow where probes are few, and tell groups apart."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofcal.calibrate.probe_records import read_probes
from roofcal.fitting.conformal import half_widths
from roofcal.fitting.probes import CalibrationError, Probe
from tests.roofcal.calibrate.probe_runs import write_run


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Probe:
    run: Path = write_run(tmp_path_factory.mktemp("run"))
    return read_probes(run, "probe_math")[0]


def group_of(recipe: str, shape: Mapping[str, int]) -> str:
    return "loud" if shape["m"] == 1 else "quiet"


def probes_of(probe: Probe, loud: int, quiet: int) -> list[Probe]:
    sizes = [1] * loud + [2] * quiet
    shapes = ({"m": size, "n": 1, "k": 1} for size in sizes)
    return [replace(probe, point=replace(probe.point, shape=shape)) for shape in shapes]


def test_ninety_five_in_a_hundred_new_errors_lie_within_the_half_width(probe: Probe) -> None:
    source, covered = np.random.default_rng(5), []
    for _ in range(60):
        errors = np.concatenate([source.normal(0, 0.2, 60), source.normal(0, 0.05, 60)])
        widths = half_widths("op", [("p", "r", probes_of(probe, 60, 60), errors)], group_of)[
            "op.p.r"
        ]
        covered.append(np.mean(np.abs(source.normal(0, 0.2, 200)) <= widths["log_p95_loud"]))
        covered.append(np.mean(np.abs(source.normal(0, 0.05, 200)) <= widths["log_p95_quiet"]))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_a_group_of_few_probes_borrows_from_its_shapes_in_other_recipes(probe: Probe) -> None:
    source = np.random.default_rng(5)
    one = np.concatenate([source.normal(0, 0.2, 100), source.normal(0, 0.05, 100)])
    errors = [
        ("p", "many", probes_of(probe, 100, 100), one),
        ("p", "few", probes_of(probe, 0, 3), np.array([0.05, -0.05, 0.05])),
    ]
    widths = half_widths("op", errors, group_of)
    few, many = widths["op.p.few"], widths["op.p.many"]
    assert few["log_p95_loud"] == pytest.approx(many["log_p95_loud"], rel=0.1)
    assert few["log_p95_quiet"] < few["log_p95_loud"] / 2


KINDS = {1: "whole.mid", 2: "partial.mid", 3: "whole.small", 4: "partial.small", 5: "odd"}


def kind_and_regime(recipe: str, shape: Mapping[str, int]) -> str:
    return KINDS[shape["m"]]


def probes_by_size(probe: Probe, counts: Mapping[int, int]) -> list[Probe]:
    sizes = [size for size, count in counts.items() for _ in range(count)]
    shapes = ({"m": size, "n": 1, "k": 1} for size in sizes)
    return [replace(probe, point=replace(probe.point, shape=shape)) for shape in shapes]


def test_a_group_of_few_probes_borrows_from_its_kind_before_it_borrows_from_all(
    probe: Probe,
) -> None:
    probes = probes_by_size(probe, {1: 40, 2: 40, 3: 2, 4: 2})
    errors = np.array([0.05] * 40 + [0.2] * 40 + [0.05] * 2 + [0.2] * 2)
    (widths,) = half_widths("op", [("p", "r", probes, errors)], kind_and_regime).values()
    assert widths["log_p95_whole.small"] == pytest.approx(widths["log_p95_whole.mid"], rel=0.01)
    assert widths["log_p95_partial.small"] > 3 * widths["log_p95_whole.small"]


def test_a_kind_that_a_regime_has_no_probes_of_has_the_width_of_the_kind(probe: Probe) -> None:
    probes = probes_by_size(probe, {1: 40, 2: 40, 4: 10})
    errors = np.array([0.05] * 40 + [0.2] * 50)
    (widths,) = half_widths(
        "op", [("p", "r", probes, errors)], kind_and_regime, KINDS.values()
    ).values()
    assert widths["log_p95_whole.small"] == pytest.approx(widths["log_p95_whole.mid"], rel=0.01)
    assert "log_p95_odd" not in widths, "a regime that no probe is of"


def test_errors_of_an_odd_kind_do_not_widen_the_others(probe: Probe) -> None:
    def width(odd: float) -> float:
        probes = probes_by_size(probe, {1: 6, 3: 60, 5: 2})
        errors = np.array([0.05, 0.04] * 33 + [odd] * 2)
        (widths,) = half_widths("op", [("p", "r", probes, errors)], kind_and_regime).values()
        return widths["log_p95_whole.mid"]

    assert width(1.0) == pytest.approx(width(0.1), rel=0.1)


def test_a_provider_of_few_probes_takes_the_quantile_of_all_providers(probe: Probe) -> None:
    source = np.random.default_rng(5)
    covered = []
    for _ in range(100):
        many = ("many", "r", probes_of(probe, 0, 200), source.normal(0, 0.2, 200))
        few = ("few", "r", probes_of(probe, 0, 10), source.normal(0, 0.05, 10))
        widths = half_widths("op", [many, few], group_of)["op.few.r"]
        covered.append(np.mean(np.abs(source.normal(0, 0.05, 500)) <= widths["log_p95_quiet"]))
    assert np.mean(covered) > 0.925, "the largest of ten errors covers ten in eleven"


def test_scales_of_providers_do_not_mix(probe: Probe) -> None:
    probes = probes_of(probe, 20, 20)
    loud, quiet = np.full(40, 0.5), np.full(40, 0.01)
    widths = half_widths("op", [("a", "r", probes, loud), ("b", "r", probes, quiet)], group_of)
    assert widths["op.a.r"]["log_p95"] == pytest.approx(0.5)
    assert widths["op.b.r"]["log_p95"] == pytest.approx(0.01)


def test_the_scale_of_a_probe_does_not_contain_its_own_error(probe: Probe) -> None:
    errors = np.array([0.1] * 10 + [1.0])
    widths = half_widths("op", [("p", "r", probes_of(probe, 0, 11), errors)], group_of)
    # without its own error every scale is 0.1, so the largest ratio is 10; the mean is 2 / 11
    assert widths["op.p.r"]["log_p95"] == pytest.approx(10 * (2 + 10 * 2 / 11) / 21)


def test_exact_fits_have_a_half_width_of_zero(probe: Probe) -> None:
    widths = half_widths("op", [("p", "r", probes_of(probe, 5, 5), np.zeros(10))], group_of)
    assert set(widths["op.p.r"].values()) == {0.0}


@pytest.mark.parametrize("errors", [[0.2], [0.0] * 11 + [0.2]])
def test_one_error_among_none_keeps_a_finite_half_width(probe: Probe, errors: list[float]) -> None:
    probes = probes_of(probe, 0, len(errors))
    widths = half_widths("op", [("p", "r", probes, np.array(errors))], group_of)
    assert 0.1 < widths["op.p.r"]["log_p95"] < 3


def test_a_recipe_without_errors_has_those_of_its_provider(probe: Probe) -> None:
    probes = probes_of(probe, 4, 4)
    errors = [("p", "a", probes, np.full(8, 0.1)), ("p", "b", probes, np.full(8, math.nan))]
    widths = half_widths("op", errors, group_of)
    assert widths["op.p.b"] == pytest.approx(widths["op.p.a"])


def test_a_provider_without_errors_is_named(probe: Probe) -> None:
    errors = [("p", "r", probes_of(probe, 2, 2), np.full(4, math.nan))]
    with pytest.raises(CalibrationError, match="no probe of op by p could be left out"):
        half_widths("op", errors, group_of)
