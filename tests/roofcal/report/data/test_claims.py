"""A claim holds where it allows our whole interval, and every verdict says why."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.points.run import Run, load_run
from roofcal.report.data.claims import JudgedClaims, Row, counts_text, judge
from tests.roofcal.claim_ledgers import SPEEDUP, entries
from tests.roofcal.report.synthetic import MadeUpRun, product

AS_SOURCE: Final = {"label": "on zeros", "points": {"distribution": "zeros"}}
SIZES: Final = {"m": 2048, "n": 2048, "k": 2048}
RATE: Final[dict[str, Any]] = {"op": "gemm", "points": {"recipe": "bf16"}}
Verdict = Callable[..., Row]


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
    made_up.constant("launch_graph_s", 2e-6, "s")
    made_up.constant("link.all_reduce.8.bytes_per_s", 3e11, "B/s")
    return load_run(made_up.write(tmp_path_factory.mktemp("claims")))


@pytest.fixture
def verdict(run: Run, h200: DeviceSpec, tmp_path: Path) -> Verdict:
    """The verdict on a claim of a value, by default 1."""

    def of(test: dict[str, Any], value: float = 1, *, spec: DeviceSpec | None = h200) -> Row:
        (row,) = judge(entries(tmp_path, {"test": {"value": value} | test}), run, spec)
        return row

    return of


def speedup(**points: Any) -> dict[str, Any]:
    """fp8 over bf16 at 2048^3, but for what the points say."""
    return SPEEDUP | {"points": SPEEDUP["points"] | SIZES | points}


@pytest.mark.parametrize(
    ("relation", "value", "tolerance", "word"),
    [
        ("about", 2.0, 0.1, "holds"),
        ("about", 2.19, 0.1, "holds"),
        ("about", 2.3, 0.1, "does not hold"),
        ("about", 1.7, 0.1, "does not hold"),
        ("about", 1.8185, 0.1, "undecided"),  # allows at most 2.00035, which our interval contains
        (">=", 2.0005, 0.0, "undecided"),
        ("<=", 2.0005, 0.0, "undecided"),
        (">=", 1.98, 0.0, "holds"),
        (">=", 2.1, 0.0, "does not hold"),
        (">=", 2.1, 0.1, "holds"),
        ("<=", 2.1, 0.0, "holds"),
        ("<=", 1.9, 0.0, "does not hold"),
        ("<=", 1.9, 0.1, "holds"),
    ],
)
def test_the_interval_decides(
    verdict: Verdict, relation: str, value: float, tolerance: float, word: str
) -> None:
    row = verdict(speedup() | {"relation": relation, "tolerance": tolerance}, value)
    assert (row["verdict"], row["reason"]) == (word, None)


def test_the_number_as_the_source_timed_it_stands_beside_and_decides_nothing(
    verdict: Verdict,
) -> None:
    row = verdict(speedup() | {"as_source": AS_SOURCE}, 2.5)
    assert row["as_source"] == pytest.approx(40 / 16)  # bf16 stays on random data
    assert row["verdict"] == "does not hold"
    missing = AS_SOURCE | {"points": {"distribution": "zeros", "cache": "hot"}}
    assert verdict(speedup() | {"as_source": missing})["as_source"] is None
    open_to_all = SPEEDUP | {"points": {"recipe": "fp8_tensorwise"} | SIZES}
    by_one = {"label": "by cuBLASLt", "points": {"provider": "cublaslt"}}
    assert verdict(open_to_all | {"as_source": by_one})["as_source"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("test", "value", "basis"),
    [
        # what the points say holds for what they are compared with
        (speedup(distribution="zeros"), 38 / 16, " on zeros against bf16 by cublaslt on zeros, "),
        (
            speedup(distribution="zeros")
            | {"against": {"recipe": "bf16", "distribution": "normal"}},
            40 / 16,
            " on zeros against bf16 by cublaslt, ",
        ),
        (
            RATE
            | {"points": {"recipe": "fp8_axiswise"} | SIZES}
            | {"quantity": "time_us", "pick": "fastest"},
            25,
            "by cublaslt",
        ),
        (RATE | {"quantity": "time_us", "pick": "median"}, 40, "median of 3 points"),
        # the highest rate need not be the shortest time
        (RATE | {"quantity": "tflops", "pick": "fastest"}, 2 * 4096**3 / 200e-6 / 1e12, "4,096"),
        ({"constant": "launch_graph_s", "quantity": "time_us"}, 2.0, "launch_graph_s"),
        (
            {"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link"},
            3e11 / 450e9,  # 900 GB/s both ways
            "link.all_reduce.8.bytes_per_s",
        ),
    ],
)
def test_our_number_has_its_interval_and_its_basis(
    verdict: Verdict, test: dict[str, Any], value: float, basis: str
) -> None:
    row = verdict(test)
    assert row["ours"] == pytest.approx(value, rel=1e-3)
    assert row["ours_low"] < row["ours"] < row["ours_high"]
    assert basis in row["basis"]


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (
            RATE | {"op": "cast", "points": {}, "quantity": "time_us"},
            "op cast is not among the rec",
        ),
        (speedup(m=64), "no point of gemm with recipe fp8_tensorwise, provider cublaslt"),
        (speedup(m=1000, n=1000, k=1000), "fp8_tensorwise by cublaslt, 1,000 x 1,000 x 1,000: un"),
        (
            RATE | {"points": {"recipe": "fp8_axiswise"} | SIZES, "quantity": "time_us"},
            "means one point, and there are fp8_axiswise by triton",
        ),
        ({"constant": "launch_eager_s", "quantity": "time_us"}, "has no launch_eager_s"),
    ],
)
def test_the_reason_names_what_is_missing(
    verdict: Verdict, test: dict[str, Any], says: str
) -> None:
    row = verdict(test)
    assert row["verdict"] == "cannot be tested"
    assert says in row["reason"]


def test_a_fraction_needs_a_datasheet_with_that_rate(verdict: Verdict, h200: DeviceSpec) -> None:
    link = {"constant": "link.all_reduce.8.bytes_per_s", "quantity": "fraction_of_link"}
    peak, bandwidth = (
        RATE | {"points": {"recipe": "bf16"} | SIZES, "quantity": f"fraction_of_{of}"}
        for of in ("peak", "bandwidth")
    )
    without_link = verdict(link, spec=replace(h200, link_bytes_per_s=None))
    assert "states no link_gb_per_s" in without_link["reason"]
    without_rate = verdict(peak, spec=replace(h200, peak_flops_per_s={}))
    assert without_rate["reason"] == "the datasheet of nvidia-h200 has no rate of bf16"
    for test in (link, peak, bandwidth):
        assert "config/devices has none of nvidia-h200" in verdict(test, spec=None)["reason"]


@pytest.mark.parametrize(("failing", "is_judged"), [(1, True), (2, False)])
def test_a_median_over_a_few_of_its_points_is_no_evidence(
    tmp_path: Path, failing: int, is_judged: bool
) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(2048, 2048, 2048), 40e-6)
    for side in range(failing):
        made_up.fail(product(64, 64, 64 + side), "failed", "the worker died")
    run = load_run(made_up.write(tmp_path / "run"))
    test = RATE | {"pick": "median", "quantity": "time_us", "value": 40}
    (row,) = judge(entries(tmp_path, {"test": test}), run, None)
    assert row["verdict"] == ("holds" if is_judged else "cannot be tested")
    assert row["reason"] == (None if is_judged else "only 1 of the 3 points have a time")


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ({}, "1.5x +-10%"),
        ({"relation": ">="}, "at least 1.5x -10%"),
        ({"relation": "<="}, "at most 1.5x +10%"),
        ({"relation": "<=", "tolerance": 0}, "at most 1.5x"),
        ({"quantity": "tflops", "against": None}, "1.5 TFLOP/s +-10%"),
        ({"quantity": "fraction_of_peak", "against": None}, "1.5 +-10%"),
    ],
)
def test_numbers_have_their_unit(verdict: Verdict, test: dict[str, Any], text: str) -> None:
    assert verdict(speedup() | test, 1.5)["theirs_shown"] == text


def test_the_answer_names_source_evidence_and_reason(
    run: Run, h200: DeviceSpec, tmp_path: Path
) -> None:
    test = SPEEDUP | {"as_source": AS_SOURCE}
    claims = entries(
        tmp_path,
        {"test": test, "says": "faster", "rows": [{"cube": 2048, "value": 1.5}]},
        {"untestable": "needs eight cards", "rows": [{"value": 3, "words_per_s": 6294}]},
    )
    verdicts = judge(claims, run, h200)
    assert counts_text(verdicts[:1] * 2) == ("2 do not hold")
    answer = JudgedClaims({("nvidia-h200", "e1"): verdicts})
    text = answer.text()
    assert text.startswith(
        "nvidia-h200, e1\n  1 does not hold, 1 cannot be tested here\n\n"
        "Made up (2026)\n"
        "  https://example.org\n  made on a card\n"
    )
    on_zeros = r"\(ours on zeros: 2.5x \(2.\d* to 2.\d*\)\)"
    ours = r"2x \(1.99\d* to 2.0\d*\)"
    assert re.search(rf"does not hold +1.5x \+-10% +{ours} +faster, without casts {on_zeros}", text)
    assert "(needs eight cards)" in text
    (document,) = json.loads(json.dumps(answer.answer))
    assert document["counts"]["does not hold"] == 1
    one, other = document["claims"]
    assert one["ours_over_theirs"] == pytest.approx(2.0 / 1.5)
    assert (one["unit"], one["as_source_how"]) == ("x", "on zeros")
    assert one["url"] == "https://example.org"
    assert (other["ours"], other["ours_over_theirs"], other["relation"]) == (None, None, None)
    assert (other["reason"], other["printed"]) == ("needs eight cards", {"words_per_s": 6294})
