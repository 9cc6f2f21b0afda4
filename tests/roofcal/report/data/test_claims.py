"""A claim holds where our interval meets what it allows, and every verdict says why."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.claims import Entry, load_claims
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.points.run import Run, load_run
from roofcal.report.data.claims import (
    WORDS,
    Evidence,
    JudgedClaims,
    OwnNumber,
    Row,
    Untestable,
    counts,
    counts_text,
    evidence_of_run,
    judge,
    own_number,
)
from tests.paths import ROOT
from tests.roofcal.claim_ledgers import SPEEDUP, entries
from tests.roofcal.report.gathers import NINE, gathered, gathered_run, true_time
from tests.roofcal.report.synthetic import MadeUpRun, product

CLAIMS = ROOT / "config/claims"


AS_SOURCE = {"label": "fp8 on zeros", "points": {"distribution": "zeros"}}


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


@pytest.fixture(scope="module")
def of_run(run: Run, h200: DeviceSpec) -> Evidence:
    return evidence_of_run(run, h200)


def verdict(of_run: Evidence, tmp_path: Path, value: float, **test: Any) -> Row:
    row = {"cube": 2048, "value": value}
    (judged,) = judge(entries(tmp_path, {"test": SPEEDUP | test, "rows": [row]}), of_run)
    return judged


@pytest.mark.parametrize(
    ("relation", "value", "tolerance", "word"),
    [
        ("about", 2.0, 0.1, "holds"),
        ("about", 2.19, 0.1, "holds"),
        ("about", 2.3, 0.1, "does not hold"),
        ("about", 1.7, 0.1, "does not hold"),
        (">=", 1.7, 0.0, "holds"),
        (">=", 2.0005, 0.0, "holds"),  # our interval reaches it
        (">=", 2.1, 0.0, "does not hold"),
        (">=", 2.1, 0.1, "holds"),
        ("<=", 2.1, 0.0, "holds"),
        ("<=", 1.9, 0.0, "does not hold"),
        ("<=", 1.9, 0.1, "holds"),
    ],
)
def test_the_interval_decides(
    of_run: Evidence, tmp_path: Path, relation: str, value: float, tolerance: float, word: str
) -> None:
    judged = verdict(of_run, tmp_path, value, relation=relation, tolerance=tolerance)
    assert (judged["verdict"], judged["reason"]) == (word, None)


def test_the_number_as_the_source_timed_it_stands_beside_and_decides_nothing(
    of_run: Evidence, tmp_path: Path
) -> None:
    judged = verdict(of_run, tmp_path, 2.0, as_source=AS_SOURCE)
    assert judged["as_source"] == pytest.approx(40 / 16)  # bf16 stays on random data
    assert verdict(of_run, tmp_path, 2.5, as_source=AS_SOURCE)["verdict"] == "does not hold"
    missing = AS_SOURCE | {"points": {"distribution": "zeros", "cache": "hot"}}
    assert verdict(of_run, tmp_path, 2.0, as_source=missing)["as_source"] is None


def test_the_source_may_differ_in_a_column_that_the_claim_leaves_open(
    of_run: Evidence, tmp_path: Path
) -> None:
    open_to_all = {"points": {"recipe": "fp8_tensorwise"}}
    as_source = {"label": "by cuBLASLt", "points": {"provider": "cublaslt"}}
    judged = verdict(of_run, tmp_path, 2.0, **open_to_all, as_source=as_source)
    assert judged["as_source"] == pytest.approx(2.0)


def test_what_cannot_be_tested_has_its_reason(of_run: Evidence, tmp_path: Path) -> None:
    row = {"cube": 64, "value": 1}
    claims = ({"untestable": "needs eight cards"}, {"test": SPEEDUP, "rows": [row]})
    one, other = judge(entries(tmp_path, *claims), of_run)
    assert (one["verdict"], one["reason"]) == ("cannot be tested", "needs eight cards")
    assert other["verdict"] == "cannot be tested"
    assert other["reason"].startswith("no point of gemm with recipe fp8_tensorwise")


def test_every_claim_of_the_ledger_gets_a_verdict(of_run: Evidence) -> None:
    claims: list[Entry] = load_claims(CLAIMS)
    verdicts = judge(claims, of_run)
    assert [v["entry"] for v in verdicts] == claims
    assert sum(counts(verdicts).values()) == len(claims)
    by_id = {v["claim"]: v for v in verdicts}
    assert by_id["torchao-pr940-gemm-tensorwise-fast-accum-2048"]["verdict"] == "does not hold"
    assert all(bool(v["reason"]) == (v["verdict"] == WORDS[2]) for v in verdicts)


def test_published_gathers_are_judged_on_eight_devices(tmp_path: Path, h200: DeviceSpec) -> None:
    run = load_run(gathered_run().write(tmp_path))
    claims_of_paper = [e for e in load_claims(CLAIMS) if e.ledger.ledger == "symm-mem-all-gather"]
    verdicts = judge(claims_of_paper, evidence_of_run(run, h200))
    assert len(verdicts) == len(NINE)
    for verdict in verdicts:
        shape = tuple(int(verdict["entry"].points[axis]) for axis in "mnk")
        sizes = (shape[0], shape[1], shape[2])
        fused, sequence = (
            true_time(gathered(name, sizes, 8)) for name in ("symm_mem_fused", "nccl_then_gemm")
        )
        assert verdict["ours"] == pytest.approx(sequence / fused)
        off = abs(sequence / fused / verdict["theirs"] - 1)
        assert verdict["verdict"] == ("holds" if off < 0.1 else "does not hold")
    assert {verdict["verdict"] for verdict in verdicts} == {"holds", "does not hold"}


def test_published_gathers_are_not_judged_on_fewer_devices(
    tmp_path: Path, h200: DeviceSpec
) -> None:
    made_up = MadeUpRun()
    for provider in ("symm_mem_fused", "nccl_then_gemm"):
        made_up.measure(gathered(provider, NINE[0], 2), 1e-4)
        reason = "too few devices: world size 8 needs 8 NVIDIA H200, this machine has 2"
        made_up.fail(gathered(provider, NINE[0], 8), "unsupported", reason)
    evidence = evidence_of_run(load_run(made_up.write(tmp_path)), h200)
    claims_of_paper = [e for e in load_claims(CLAIMS) if e.ledger.ledger == "symm-mem-all-gather"]
    verdicts = judge(claims_of_paper, evidence)
    assert {verdict["verdict"] for verdict in verdicts} == {"cannot be tested"}
    assert [v for v in verdicts if "too few devices: world size 8" in v["reason"]]


@pytest.fixture
def verdicts(of_run: Evidence, tmp_path: Path) -> list[Row]:
    test = SPEEDUP | {"as_source": AS_SOURCE | {"label": "on zeros"}}
    claims = entries(
        tmp_path,
        {"test": test, "says": "faster", "rows": [{"cube": 2048, "value": 1.5}]},
        {"untestable": "needs eight cards", "rows": [{"value": 3, "words_per_s": 6294}]},
    )
    return judge(claims, of_run)


def test_verdicts_are_counted_in_words(verdicts: list[Row]) -> None:
    assert counts_text(verdicts) == "0 hold, 1 does not hold, 1 cannot be tested here"
    assert counts_text(verdicts[:1] * 2) == "0 hold, 2 do not hold, 0 cannot be tested here"


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ({}, "1.5x +-10%"),
        ({"relation": ">="}, "at least 1.5x -10%"),
        ({"relation": "<="}, "at most 1.5x +10%"),
        ({"relation": "<=", "tolerance": 0}, "at most 1.5x"),
        ({"quantity": "tflops", "against": None}, "1.5 TFLOP/s +-10%"),
        ({"quantity": "time_us", "against": None}, "1.5 us +-10%"),
        ({"quantity": "fraction_of_peak", "against": None}, "1.5 +-10%"),
    ],
)
def test_numbers_have_their_unit(
    of_run: Evidence, tmp_path: Path, test: dict[str, Any], text: str
) -> None:
    assert verdict(of_run, tmp_path, 1.5, **test)["theirs_shown"] == text


def test_the_answer_names_source_evidence_and_reason(verdicts: list[Row]) -> None:
    answer = JudgedClaims({("nvidia-h200", "e1"): verdicts})
    text = answer.text()
    assert text.startswith("nvidia-h200, e1\n  0 hold, 1 does not hold")
    assert "Made up (2026)\n  https://example.org; made on a card" in text
    assert "does not hold     1.5x +-10%  faster" in text
    assert re.search(r"ours 2x \(1.99\d* to 2.0\d*\); on zeros: 2.5x \(2.\d* to 2.\d*\)", text)
    assert "needs eight cards" in text
    (document,) = json.loads(json.dumps(answer.answer))
    assert document["counts"]["does not hold"] == 1
    one, other = document["claims"]
    assert one["ours_low"] < one["ours"] < one["ours_high"]
    assert one["ours_over_theirs"] == pytest.approx(2.0 / 1.5)
    assert (one["unit"], one["as_source_how"]) == ("x", "on zeros")
    assert one["url"] == "https://example.org"
    assert (other["ours"], other["ours_over_theirs"], other["relation"]) == (None, None, None)
    assert (other["reason"], other["printed"]) == ("needs eight cards", {"words_per_s": 6294})


SIZES = {"m": 2048, "n": 2048, "k": 2048}


NumberOf = Callable[..., OwnNumber]


RATE: dict[str, Any] = {"op": "gemm", "points": {"recipe": "bf16"}, "value": 1}


@pytest.fixture
def number_of(of_run: Evidence, tmp_path: Path) -> NumberOf:
    def number(test: dict[str, Any], **changes: Any) -> OwnNumber:
        (entry,) = entries(tmp_path, {"test": {"value": 1} | test}, **changes)
        assert entry.test is not None
        base = {**entry.points, **(entry.test.against or {})}
        return own_number(entry.test, of_run, entry.points, base)

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
    assert verdict["verdict"] == ("holds" if is_judged else "cannot be tested")
    assert verdict["reason"] == (None if is_judged else "only 1 of the 3 points have a time")


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


def test_a_constant_is_that_of_the_calibration(number_of: NumberOf, h200: DeviceSpec) -> None:
    share = number_of({"constant": "dram_copy_bytes_per_s", "quantity": "fraction_of_bandwidth"})
    assert share.value == pytest.approx(4e12 / h200.dram_bytes_per_s)
    assert share.basis == "calibrated constant dram_copy_bytes_per_s"
    launch = number_of({"constant": "launch_graph_s", "quantity": "time_us"})
    assert (launch.low, launch.value, launch.high) == pytest.approx((1.96, 2.0, 2.04))
    link = number_of({"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link"})
    assert link.value == pytest.approx(3e11 / 450e9)  # 900 GB/s both ways


def test_a_datasheet_without_a_link_has_no_fraction_of_it(of_run: Evidence, tmp_path: Path) -> None:
    test = {"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link", "value": 1}
    (entry,) = entries(tmp_path, {"test": test})
    assert entry.test is not None
    lonely = replace(of_run, spec=replace(of_run.datasheet, link_bytes_per_s=None))
    with pytest.raises(Untestable, match="states no link_gb_per_s"):
        own_number(entry.test, lonely, {}, {})


@pytest.mark.parametrize("quantity", ["fraction_of_peak", "fraction_of_bandwidth"])
def test_a_fraction_needs_a_datasheet(of_run: Evidence, tmp_path: Path, quantity: str) -> None:
    test = RATE | {"points": {"recipe": "bf16"} | SIZES, "quantity": quantity}
    (entry,) = entries(tmp_path, {"test": test})
    assert entry.test is not None
    with pytest.raises(Untestable, match="config/devices has none of nvidia-h200"):
        own_number(entry.test, replace(of_run, spec=None), entry.points, {})
