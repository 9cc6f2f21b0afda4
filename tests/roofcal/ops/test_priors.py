"""Constants of cards as fractions of their datasheets: there and back, and to other cards."""

from dataclasses import replace

import numpy as np
import pytest

from roofcal.core.records import Calibration, Ceiling
from roofcal.ops.priors import (
    SPREAD,
    calibration_of_nobody,
    fractions_of,
    narrowed_errors,
    priors_of,
    unlike_other_cards,
)
from tests.roofcal.calibrate.probe_runs import TRUTH
from tests.roofcal.made_up_records import exactly
from tests.roofcal.models.runs import SPEC, calibration

MADE = calibration()
STREAM = 4.4e12
SPANS = {name: {"bytes": (1.0, 2.0)} for name in MADE.probe_errors}
CALIBRATION = replace(
    MADE,
    constants={**MADE.constants, "dram_read_bytes_per_s": exactly(STREAM, "B/s")},
    probe_spans=SPANS,
    probe_points=9,
)
CARD = fractions_of(CALIBRATION, SPEC)
# Twice the peak by half as many units, and three times the memory.
OTHER = replace(
    SPEC,
    device="other",
    compute_units=SPEC.compute_units // 2,
    peak_flops_per_s={"bf16": 2e15},
    dram_bytes_per_s=3 * SPEC.dram_bytes_per_s,
)
PRODUCT, CAST = "gemm.cublaslt.bf16", "cast.torch_compile.fp8_rowwise_dim0"
BETWEEN = replace(MADE, constants={}, probe_errors={PRODUCT: {"log_p95": 0.3}, "gemm.no.bf16": {}})


def changed(card: Calibration, device: str, **factors: float) -> Calibration:
    """Another card, whose constants of bf16 products differ by factors."""

    more: dict[str, Ceiling] = {}
    for name, factor in factors.items():
        own = card.constants[f"{PRODUCT}.{name}"]
        more[f"{PRODUCT}.{name}"] = exactly(own.value * factor, own.unit)
    return replace(card, device=device, constants={**card.constants, **more})


def test_a_card_as_its_own_prior_gives_its_constants_back() -> None:
    priors = priors_of([CARD], SPEC)
    for op, pairs in priors.items():
        for pair, prior in pairs.items():
            assert prior.cards == ("made-up",)
            for name, known in prior.constants.items():
                own = CALIBRATION.constants[f"{op}.{'.'.join(pair)}.{name}"]
                assert known.value == pytest.approx(own.value), name
                assert known.deviation == pytest.approx(SPREAD)
    assert set(priors["gemm"]) == {("cublaslt", "bf16"), ("cublaslt", "fp8_tensorwise")}
    prior = priors["gemm"]["cublaslt", "bf16"]
    assert prior.family == "any_tile_split_k"
    assert set(prior.constants) == set(TRUTH)
    assert "compute_units" not in CARD.constants


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        (f"{PRODUCT}.sustained_flops_per_s", 2),  # rates of all units go with the peak
        (f"{PRODUCT}.l2_bytes_per_s", 2),
        (f"{PRODUCT}.tile_flops_per_s", 4),  # those of one unit with its part of the peak
        (f"{PRODUCT}.store_bytes_per_s", 4),
        (f"{PRODUCT}.dram_bytes_per_s", 3),  # bandwidths with that of streams
        (f"{CAST}.bytes_per_s", 3),
        ("dram_read_bytes_per_s", 3),
        ("dram_copy_bytes_per_s", 3),
        (f"{PRODUCT}.launch_s", 1),  # and seconds and factors are shared
        (f"{PRODUCT}.k_latency_s_per_byte", 1),
        (f"{PRODUCT}.misaligned", 1),
        ("launch_graph_s", 1),
        ("compute_units", 0.5),
    ],
)
def test_each_kind_of_constant_goes_with_its_own_figure_of_the_datasheet(
    name: str, factor: float
) -> None:
    errors = replace(BETWEEN, probe_errors=MADE.probe_errors)
    nobody = calibration_of_nobody([CARD, errors], OTHER)
    assert nobody is not None
    assert nobody.constants[name].value == pytest.approx(factor * CALIBRATION.constants[name].value)
    op, _, rest = name.partition(".")
    if rest:
        provider, recipe, last = rest.split(".")
        known = priors_of([CARD], OTHER)[op][provider, recipe].constants[last]
        assert known.value == nobody.constants[name].value


def test_bandwidths_go_with_the_streams_that_were_measured() -> None:
    measured = priors_of([CARD], OTHER, 2 * STREAM)["gemm"]["cublaslt", "bf16"].constants
    expected = 2 * TRUTH["dram_bytes_per_s"]
    assert measured["dram_bytes_per_s"].value == pytest.approx(expected)
    assert measured["l2_bytes_per_s"].value == pytest.approx(2 * TRUTH["l2_bytes_per_s"])


def test_cards_are_averaged_by_logarithms_and_known_as_well_as_their_intervals() -> None:
    wide = replace(CARD.constants[f"{PRODUCT}.wave_s"], ci95_low=5e-7, ci95_high=2e-6)
    unsure = replace(CARD, constants={**CARD.constants, f"{PRODUCT}.wave_s": wide})
    slow = changed(CARD, "slow", launch_s=4.0)
    prior = priors_of([unsure, slow], SPEC)["gemm"]["cublaslt", "bf16"]
    assert prior.cards == ("made-up", "slow")
    assert prior.constants["launch_s"].value == pytest.approx(2 * TRUTH["launch_s"])
    assert prior.constants["launch_s"].deviation == pytest.approx(SPREAD)
    of_interval = np.log(4.0) / 3.92 / 2  # of the mean of this card and one that is exact
    expected = np.hypot(SPREAD, of_interval)
    assert prior.constants["wave_s"].deviation == pytest.approx(expected)


def test_cards_of_another_family_say_nothing_of_its_constants() -> None:
    family = f"{PRODUCT}.tile_family"
    other = replace(
        CARD,
        device="richer",
        constants={**CARD.constants, family: replace(CARD.constants[family], value=0.0)},
        probe_points=10,
    )
    prior = priors_of([CARD, other], SPEC)["gemm"]["cublaslt", "bf16"]
    assert prior.cards == ("richer",)  # the card of most probes says which family
    assert prior.family == "plain"


def test_cards_of_other_equations_are_left_out() -> None:
    older = replace(CARD, device="older", equations={"gemm": 1}, probe_points=99)
    assert priors_of([older], SPEC) == {}
    assert priors_of([older, CARD], SPEC) == priors_of([CARD], SPEC)
    assert calibration_of_nobody([older, BETWEEN], OTHER) is None
    assert calibration_of_nobody([BETWEEN], OTHER) is None


def test_the_calibration_of_nobody_says_whose_constants_it_has_and_how_far_cards_lie() -> None:
    one = calibration_of_nobody([CARD, BETWEEN], OTHER)
    two = calibration_of_nobody([CARD, replace(CARD, device="second"), BETWEEN], OTHER)
    assert one is not None
    assert two is not None
    assert (one.device, one.environment_id) == ("other", "prior-of-1-card")
    assert two.environment_id == "prior-of-2-cards"
    launch = two.constants[f"{PRODUCT}.launch_s"]
    assert launch.evidence == "prior of made-up and second, by the datasheets"
    for end, sign in ((launch.ci95_low, -1), (launch.ci95_high, 1)):
        assert end == pytest.approx(launch.value * np.exp(sign * 1.96 * SPREAD))
    family = f"{PRODUCT}.tile_family"
    assert two.constants[family] == CARD.constants[family]
    assert two.constants["compute_units"].evidence == "datasheet"
    # Only a pair whose errors between cards are known can have an interval.
    assert two.probe_errors == {PRODUCT: {"log_p95": 0.3}}
    assert two.probe_spans == {PRODUCT: SPANS[PRODUCT]}
    pairs = {name.rpartition(".")[0] for name in two.constants if "." in name}
    assert pairs == {PRODUCT}


def test_half_widths_of_few_probes_are_no_wider_than_those_of_a_card_that_nobody_measured() -> None:
    own = {
        PRODUCT: {"mape": 0.9, "log_p95": 0.8, "log_p95_decode": 0.1},
        CAST: {"log_p95": 2.0},
    }
    narrowed = narrowed_errors(own, [CARD, BETWEEN], OTHER)
    # Nothing is known of casts between cards, and group decode is as narrow as its probes say.
    assert narrowed == {**own, PRODUCT: {"mape": 0.9, "log_p95": 0.3, "log_p95_decode": 0.1}}
    assert narrowed_errors(own, [BETWEEN], OTHER) == own


def test_a_card_that_is_unlike_others_is_named_by_what_is_slow_or_fast() -> None:
    def reading_at(rate: float, device: str) -> Calibration:
        constants = {"dram_read_bytes_per_s": exactly(rate, "B/s")}
        return replace(CALIBRATION, device=device, constants=constants)

    slow, near = reading_at(0.82 * STREAM, "made-up"), reading_at(0.97 * STREAM, "made-up")
    slower = "memory reads are 18% slower than made-up as published"
    assert unlike_other_cards(slow, [CARD, BETWEEN], SPEC) == [slower]
    assert unlike_other_cards(near, [CARD, BETWEEN], SPEC) == []
    # Cards of another model say less: 18 % are within what they differ by, 40 % are not.
    assert unlike_other_cards(reading_at(0.82 * 3 * STREAM, "other"), [CARD], OTHER) == []
    (far,) = unlike_other_cards(reading_at(1.4 * 3 * STREAM, "other"), [CARD], OTHER)
    assert far == "memory reads are 40% faster than made-up and the datasheets say"
    unsure = replace(slow.constants["dram_read_bytes_per_s"], ci95_high=STREAM)
    slow_or_not = replace(slow, constants={"dram_read_bytes_per_s": unsure})
    assert unlike_other_cards(slow_or_not, [CARD], SPEC) == []
    assert unlike_other_cards(slow, [BETWEEN], SPEC) == []
