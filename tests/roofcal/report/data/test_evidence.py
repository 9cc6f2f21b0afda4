"""Our number for a claim is that of the rows it names, with the interval of their samples."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.points.run import Run, load_run
from roofcal.report.data.claims import judge
from roofcal.report.data.evidence import (
    Evidence,
    OwnNumber,
    Untestable,
    evidence_of_run,
    own_number,
)
from tests.roofcal.claims.ledgers import SPEEDUP, entries
from tests.roofcal.report.synthetic import MadeUpRun, product

SIZES = {"m": 2048, "n": 2048, "k": 2048}
NumberOf = Callable[..., OwnNumber]
RATE: dict[str, Any] = {"op": "gemm", "points": {"recipe": "bf16"}, "value": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made_up = MadeUpRun()
    zeros = Protocol(distribution="zeros")
    made_up.measure(product(2048, 2048, 2048), 40e-6)
    made_up.measure(product(2048, 2048, 2048, repeat=1), 4e-6)
    made_up.measure(product(2048, 2048, 2048, protocol=zeros), 38e-6)
    made_up.measure(product(2048, 2048, 2048, "fp8_tensorwise"), 20e-6)
    made_up.measure(product(2048, 2048, 2048, "fp8_tensorwise", protocol=zeros), 16e-6)
    made_up.measure(product(2048, 2048, 2048, "fp8_axiswise", provider="triton"), 32e-6)
    made_up.measure(product(2048, 2048, 2048, "fp8_axiswise"), 25e-6)
    made_up.measure(product(4096, 4096, 4096), 200e-6)
    made_up.measure(product(1000, 1000, 1000), 10e-6)
    made_up.fail(product(1000, 1000, 1000, "fp8_tensorwise"), "unsupported", "no multiple of 16")
    made_up.constant("dram_copy_bytes_per_s", 4e12, "B/s")
    made_up.constant("launch_graph_s", 2e-6, "s")
    made_up.constant("link.all_reduce.8.bytes_per_s", 3e11, "B/s")
    return load_run(made_up.write(tmp_path_factory.mktemp("claims")))


@pytest.fixture
def evidence(run: Run, h200: DeviceSpec) -> Evidence:
    return evidence_of_run(run, h200)


@pytest.fixture
def number_of(evidence: Evidence, tmp_path: Path) -> NumberOf:
    def number(test: dict[str, Any], **changes: Any) -> OwnNumber:
        (entry,) = entries(tmp_path, {"test": {"value": 1} | test}, **changes)
        assert entry.test is not None
        base = {**entry.points, **(entry.test.against or {})}
        return own_number(entry, entry.test, evidence, entry.points, base)

    return number


def speedup(**points: Any) -> dict[str, Any]:
    return SPEEDUP | {"points": SPEEDUP["points"] | points}


def test_a_speed_up_is_time_over_time_with_the_far_ends(
    number_of: NumberOf,
) -> None:
    ours = number_of(speedup(**SIZES))
    assert ours.value == pytest.approx(2.0)
    assert 1.98 < ours.low < 2.0 < ours.high < 2.02
    basis = "fp8_tensorwise by cublaslt against bf16 by cublaslt, 2,048 x 2,048 x 2,048"
    assert ours.basis == basis


def test_what_the_points_say_holds_for_what_they_are_compared_with(
    number_of: NumberOf,
) -> None:
    assert number_of(speedup(distribution="zeros", **SIZES)).value == pytest.approx(38 / 16)
    own = {"against": {"recipe": "bf16", "distribution": "normal"}}
    assert number_of(speedup(distribution="zeros", **SIZES) | own).value == pytest.approx(40 / 16)


def test_of_several_points_the_fastest_or_none(number_of: NumberOf) -> None:
    test = RATE | {"points": {"recipe": "fp8_axiswise"} | SIZES, "quantity": "time_us"}
    assert number_of(test | {"pick": "fastest"}).value == pytest.approx(25)
    assert "by cublaslt" in number_of(test | {"pick": "fastest"}).basis
    with pytest.raises(Untestable, match="means one point, and there are fp8_axiswise by triton"):
        number_of(test)


def test_rates_are_work_over_time(number_of: NumberOf, h200: DeviceSpec) -> None:
    one = RATE | {"points": {"recipe": "bf16"} | SIZES}
    flops = 2 * 2048**3
    tflops = number_of(one | {"quantity": "tflops"})
    assert tflops.value == pytest.approx(flops / 40e-6 / 1e12)
    assert tflops.low < tflops.value < tflops.high
    fraction = number_of(one | {"quantity": "fraction_of_peak"}).value
    assert fraction == pytest.approx(flops / 40e-6 / h200.peak_flops_per_s["bf16"])
    share = number_of(one | {"quantity": "fraction_of_bandwidth"}).value
    assert share == pytest.approx(3 * 2 * 2048**2 / 40e-6 / h200.dram_bytes_per_s)


def test_the_highest_rate_need_not_be_the_shortest_time(
    number_of: NumberOf,
) -> None:
    best = number_of(RATE | {"pick": "fastest", "quantity": "tflops"})
    assert best.value == pytest.approx(2 * 4096**3 / 200e-6 / 1e12)
    assert "4,096" in best.basis


def test_a_median_is_over_points(number_of: NumberOf) -> None:
    middle = number_of(RATE | {"pick": "median", "quantity": "time_us"})
    assert middle.value == pytest.approx(40)
    assert (middle.low, middle.high) == pytest.approx((10, 200))
    assert middle.basis == "median of 3 points"


@pytest.mark.parametrize(("failing", "is_judged"), [(1, True), (2, False)])
def test_a_median_over_a_few_of_its_points_is_no_evidence(
    tmp_path: Path, failing: int, is_judged: bool
) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(2048, 2048, 2048), 40e-6)
    for side in range(failing):
        made_up.fail(product(64, 64, 64 + side), "failed", "the worker died")
    evidence = evidence_of_run(load_run(made_up.write(tmp_path / "run")), None)
    test = RATE | {"pick": "median", "quantity": "time_us", "value": 40}
    (verdict,) = judge(entries(tmp_path, {"test": test}), evidence)
    assert verdict.word == ("holds" if is_judged else "cannot be tested")
    assert verdict.reason == ("" if is_judged else "only 1 of the 3 points have a time")


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (
            RATE | {"op": "cast", "points": {}, "quantity": "time_us"},
            "op cast is not among the rec",
        ),
        (speedup(m=64, n=64, k=64), "no point of gemm with recipe fp8_tensorwise, provider cubl"),
        (
            speedup(m=1000, n=1000, k=1000),
            "fp8_tensorwise by cublaslt, 1,000 x 1,000 x 1,000: un",
        ),
        ({"constant": "launch_eager_s", "quantity": "time_us"}, "has no launch_eager_s"),
    ],
)
def test_the_reason_names_what_is_missing(
    number_of: NumberOf, test: dict[str, Any], says: str
) -> None:
    with pytest.raises(Untestable, match=says):
        number_of(test)


def test_a_claim_on_an_op_that_is_awaited_says_so(number_of: NumberOf) -> None:
    later = {"later": {"axes": ["m"], "recipes": ["bf16"], "providers": ["fused"]}}
    test = {"op": "later", "points": {"recipe": "bf16"}, "quantity": "time_us"}
    with pytest.raises(Untestable, match="op later is not built yet"):
        number_of(test, awaited=later)


def test_a_constant_is_that_of_the_calibration(number_of: NumberOf, h200: DeviceSpec) -> None:
    share = number_of({"constant": "dram_copy_bytes_per_s", "quantity": "fraction_of_bandwidth"})
    assert share.value == pytest.approx(4e12 / h200.dram_bytes_per_s)
    assert share.basis == "calibrated constant dram_copy_bytes_per_s"
    launch = number_of({"constant": "launch_graph_s", "quantity": "time_us"})
    assert (launch.low, launch.value, launch.high) == pytest.approx((1.96, 2.0, 2.04))
    link = number_of({"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link"})
    assert link.value == pytest.approx(3e11 / 450e9)  # 900 GB/s both ways


def test_a_datasheet_without_a_link_has_no_fraction_of_it(
    evidence: Evidence, tmp_path: Path
) -> None:
    test = {"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link", "value": 1}
    (entry,) = entries(tmp_path, {"test": test})
    assert entry.test is not None
    lonely = replace(evidence, spec=replace(evidence.datasheet, link_bytes_per_s=None))
    with pytest.raises(Untestable, match="states no link_gb_per_s"):
        own_number(entry, entry.test, lonely, {}, {})


@pytest.mark.parametrize("quantity", ["fraction_of_peak", "fraction_of_bandwidth"])
def test_a_fraction_needs_a_datasheet(evidence: Evidence, tmp_path: Path, quantity: str) -> None:
    test = RATE | {"points": {"recipe": "bf16"} | SIZES, "quantity": quantity}
    (entry,) = entries(tmp_path, {"test": test})
    assert entry.test is not None
    with pytest.raises(Untestable, match="config/devices has none of nvidia-h200"):
        own_number(entry, entry.test, replace(evidence, spec=None), entry.points, {})
