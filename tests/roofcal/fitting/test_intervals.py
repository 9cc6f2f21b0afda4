"""Intervals of constants and of predictions cover as often as they say, and borrow where few."""

import math

import numpy as np
import pytest

from roofcal.core.times import Array
from roofcal.fitting.intervals import ceiling, half_widths, interval
from roofcal.fitting.probes import CalibrationError

MID, PARTIAL, SMALL, PARTIAL_SMALL = "whole.mid", "partial.mid", "whole.small", "partial.small"
KINDS = (MID, PARTIAL, SMALL, PARTIAL_SMALL, "odd")


def widths_of(groups: list[str], errors: Array, declared: tuple[str, ...] = ()) -> dict[str, float]:
    """Of one provider and recipe."""
    (widths,) = half_widths("op", [("p", "r", groups, errors)], declared).values()
    return widths


def test_ninety_five_in_a_hundred_new_errors_lie_within_the_half_width() -> None:
    source, covered = np.random.default_rng(5), []
    for _ in range(60):
        errors = np.concatenate([source.normal(0, 0.2, 60), source.normal(0, 0.05, 60)])
        widths = widths_of(["loud"] * 60 + ["quiet"] * 60, errors)
        covered.append(np.mean(np.abs(source.normal(0, 0.2, 200)) <= widths["log_p95_loud"]))
        covered.append(np.mean(np.abs(source.normal(0, 0.05, 200)) <= widths["log_p95_quiet"]))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_a_group_of_few_probes_borrows_from_its_shapes_in_other_recipes() -> None:
    source = np.random.default_rng(5)
    one = np.concatenate([source.normal(0, 0.2, 100), source.normal(0, 0.05, 100)])
    errors = [
        ("p", "many", ["loud"] * 100 + ["quiet"] * 100, one),
        ("p", "few", ["quiet"] * 3, np.array([0.05, -0.05, 0.05])),
    ]
    widths = half_widths("op", errors)
    few, many = widths["op.p.few"], widths["op.p.many"]
    assert few["log_p95_loud"] == pytest.approx(many["log_p95_loud"], rel=0.1)
    assert few["log_p95_quiet"] < few["log_p95_loud"] / 2


def test_a_group_of_few_probes_borrows_from_its_kind_before_it_borrows_from_all() -> None:
    groups = [MID] * 40 + [PARTIAL] * 40 + [SMALL] * 2 + [PARTIAL_SMALL] * 2
    widths = widths_of(groups, np.array([0.05] * 40 + [0.2] * 40 + [0.01] * 2 + [0.2] * 2))
    assert 0.7 < widths["log_p95_whole.small"] / widths["log_p95_whole.mid"] < 0.9
    assert widths["log_p95_partial.small"] > 3 * widths["log_p95_whole.small"]


def test_a_kind_that_a_regime_has_no_probes_of_has_the_width_of_the_kind() -> None:
    groups = [MID] * 40 + [PARTIAL] * 40 + [PARTIAL_SMALL] * 10
    widths = widths_of(groups, np.array([0.05] * 40 + [0.2] * 50), KINDS)
    assert widths["log_p95_whole.small"] == pytest.approx(widths["log_p95_whole.mid"], rel=0.01)
    assert "log_p95_odd" not in widths, "a regime that no probe is of"


def test_errors_of_an_odd_kind_do_not_widen_the_others() -> None:
    groups = [MID] * 6 + [SMALL] * 60 + ["odd"] * 2
    wide, narrow = (widths_of(groups, np.array([0.05, 0.04] * 33 + [e] * 2)) for e in (1.0, 0.1))
    assert wide["log_p95_whole.mid"] == pytest.approx(narrow["log_p95_whole.mid"], rel=0.1)


def test_a_provider_of_few_probes_takes_the_quantile_of_all_providers() -> None:
    source, covered = np.random.default_rng(5), []
    for _ in range(100):
        many = ("many", "r", ["quiet"] * 200, source.normal(0, 0.2, 200))
        few = ("few", "r", ["quiet"] * 10, source.normal(0, 0.05, 10))
        widths = half_widths("op", [many, few])["op.few.r"]
        covered.append(np.mean(np.abs(source.normal(0, 0.05, 500)) <= widths["log_p95_quiet"]))
    assert np.mean(covered) > 0.925, "the largest of ten errors covers ten in eleven"


def test_the_scale_of_a_probe_does_not_contain_its_own_error() -> None:
    widths = widths_of(["all"] * 11, np.array([0.1] * 10 + [1.0]))
    # without its own error every scale is 0.1, so the largest ratio is 10; the mean is 2 / 11
    assert widths["log_p95"] == pytest.approx(10 * (2 + 10 * 2 / 11) / 21)


@pytest.mark.parametrize("errors", [[0.2], [0.0] * 11 + [0.2]])
def test_exact_fits_have_no_width_and_one_error_among_them_a_finite_one(
    errors: list[float],
) -> None:
    assert set(widths_of(["all"] * 10, np.zeros(10)).values()) == {0.0}
    assert 0.1 < widths_of(["all"] * len(errors), np.array(errors))["log_p95"] < 3


def test_without_errors_a_recipe_has_those_of_its_provider_and_a_provider_is_named() -> None:
    none = ("p", "b", ["all"] * 8, np.full(8, math.nan))
    widths = half_widths("op", [("p", "a", ["all"] * 8, np.full(8, 0.1)), none])
    assert widths["op.p.b"] == pytest.approx(widths["op.p.a"])
    with pytest.raises(CalibrationError, match="no probe of op by p could be left out"):
        half_widths("op", [none])


def test_the_interval_of_a_mean_covers_it_most_of_the_time() -> None:
    source = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        x = source.normal(5.0, 1.0, 40)
        low, high = interval(40, lambda i, x=x: np.asarray(x[i].mean()), source)  # type: ignore[misc]
        hits += bool(low <= 5.0 <= high)
    assert 0.88 <= hits / 200 <= 0.99


def test_a_ceiling_holds_its_own_value() -> None:
    constant = ceiling(3.0, 3.5, 4.0, "s", "test")
    assert (constant.ci95_low, constant.ci95_high) == (3.0, 4.0)
