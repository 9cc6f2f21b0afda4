"""A claim holds where our interval meets what it allows, and every verdict says why."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.claims.ledgers import Entry, load_claims
from roofcal.core.devices import DeviceSpec
from roofcal.core.records import Protocol
from roofcal.points.run import load_run
from roofcal.report.data.claims import (
    WORDS,
    Verdict,
    as_document,
    as_row,
    as_text,
    counts,
    counts_text,
    judge,
    own_text,
    source_text,
)
from roofcal.report.data.evidence import Evidence, OwnNumber, evidence_of_run
from tests.paths import ROOT
from tests.roofcal.claims.ledgers import SPEEDUP, entries
from tests.roofcal.report.gathers import NINE, gathered, gathered_run, true_time
from tests.roofcal.report.synthetic import MadeUpRun, product

CLAIMS = ROOT / "config/claims"
OURS = OwnNumber(value=2.0, low=1.98, high=2.02, basis="points")
AS_SOURCE = {"label": "fp8 on zeros", "points": {"distribution": "zeros"}}


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory, h200: DeviceSpec) -> Evidence:
    made_up = MadeUpRun()
    made_up.measure(product(2048, 2048, 2048), 40e-6)
    fp8 = product(2048, 2048, 2048, "fp8_tensorwise")
    made_up.measure(fp8, 20e-6)
    zeros = Protocol(distribution="zeros")
    made_up.measure(product(2048, 2048, 2048, "fp8_tensorwise", protocol=zeros), 16e-6)
    run = load_run(made_up.write(tmp_path_factory.mktemp("claims")))
    frame = run.points("gemm", h200).table
    return Evidence(
        device="nvidia-h200",
        frame=lambda op: frame if op == "gemm" else None,
        calibration=None,
        spec=h200,
    )


def verdict(evidence: Evidence, tmp_path: Path, value: float, **test: Any) -> Verdict:
    row = {"cube": 2048, "value": value}
    (judged,) = judge(entries(tmp_path, {"test": SPEEDUP | test, "rows": [row]}), evidence)
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
    evidence: Evidence, tmp_path: Path, relation: str, value: float, tolerance: float, word: str
) -> None:
    judged = verdict(evidence, tmp_path, value, relation=relation, tolerance=tolerance)
    assert judged.word == word
    assert judged.reason == ""


def test_the_number_as_the_source_timed_it_stands_beside_and_decides_nothing(
    evidence: Evidence, tmp_path: Path
) -> None:
    judged = verdict(evidence, tmp_path, 2.0, as_source=AS_SOURCE)
    assert judged.as_source is not None
    assert judged.as_source.value == pytest.approx(40 / 16)  # bf16 stays on random data
    assert verdict(evidence, tmp_path, 2.5, as_source=AS_SOURCE).word == "does not hold"
    missing = AS_SOURCE | {"points": {"distribution": "zeros", "cache": "hot"}}
    assert verdict(evidence, tmp_path, 2.0, as_source=missing).as_source is None


def test_the_source_may_differ_in_a_column_that_the_claim_leaves_open(
    evidence: Evidence, tmp_path: Path
) -> None:
    open_to_all = {"points": {"recipe": "fp8_tensorwise"}}
    as_source = {"label": "by cuBLASLt", "points": {"provider": "cublaslt"}}
    judged = verdict(evidence, tmp_path, 2.0, **open_to_all, as_source=as_source)
    assert judged.as_source is not None
    assert judged.as_source.value == pytest.approx(2.0)


def test_what_cannot_be_tested_has_its_reason(evidence: Evidence, tmp_path: Path) -> None:
    row = {"cube": 64, "value": 1}
    claims = ({"untestable": "needs eight cards"}, {"test": SPEEDUP, "rows": [row]})
    one, other = judge(entries(tmp_path, *claims), evidence)
    assert (one.word, one.reason) == ("cannot be tested", "needs eight cards")
    assert other.word == "cannot be tested"
    assert other.reason.startswith("no point of gemm with recipe fp8_tensorwise")


def test_a_row_has_their_number_and_ours_side_by_side(evidence: Evidence, tmp_path: Path) -> None:
    row = as_row(verdict(evidence, tmp_path, 2.5, as_source=AS_SOURCE))
    assert (row["verdict"], row["theirs"], row["unit"]) == ("does not hold", 2.5, "x")
    assert row["ours"] == pytest.approx(2.0)
    assert row["ours_low"] < row["ours"] < row["ours_high"]
    assert row["ours_over_theirs"] == pytest.approx(0.8)
    assert row["as_source_how"] == "fp8 on zeros"
    assert row["url"] == "https://example.org"


def test_a_row_of_an_untestable_claim_has_no_number_of_ours(tmp_path: Path) -> None:
    (entry,) = entries(tmp_path, {"untestable": "why", "printed": {"words_per_s": 6294}})
    row = as_row(Verdict(entry=entry, word="cannot be tested", reason="why"))
    assert (row["ours"], row["ours_over_theirs"], row["relation"]) == (None, None, None)
    assert (row["reason"], row["printed"]) == ("why", "words_per_s 6294")


def test_every_claim_of_the_ledger_gets_a_verdict(evidence: Evidence) -> None:
    claims: list[Entry] = load_claims(CLAIMS)
    verdicts = judge(claims, evidence)
    assert [v.entry for v in verdicts] == claims
    assert sum(counts(verdicts).values()) == len(claims)
    by_id = {v.entry.id: v for v in verdicts}
    assert by_id["torchao-pr940-gemm-tensorwise-fast-accum-2048"].word == "does not hold"
    assert all(bool(v.reason) == (v.word == WORDS[2]) for v in verdicts)


def test_published_gathers_are_judged_on_eight_devices(tmp_path: Path, h200: DeviceSpec) -> None:
    run = load_run(gathered_run().write(tmp_path))
    claims_of_paper = [e for e in load_claims(CLAIMS) if e.ledger.ledger == "symm-mem-all-gather"]
    verdicts = judge(claims_of_paper, evidence_of_run(run, h200))
    assert len(verdicts) == len(NINE)
    for verdict in verdicts:
        shape = tuple(int(verdict.entry.points[axis]) for axis in "mnk")
        sizes = (shape[0], shape[1], shape[2])
        fused, sequence = (
            true_time(gathered(name, sizes, 8)) for name in ("symm_mem_fused", "nccl_then_gemm")
        )
        assert verdict.ours is not None
        assert verdict.ours.value == pytest.approx(sequence / fused)
        off = abs(sequence / fused / float(verdict.entry.value or 0) - 1)
        assert verdict.word == ("holds" if off < 0.1 else "does not hold")
    assert {verdict.word for verdict in verdicts} == {"holds", "does not hold"}


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
    assert {verdict.word for verdict in verdicts} == {"cannot be tested"}
    assert [v.reason for v in verdicts if "too few devices: world size 8" in v.reason]


def entry(folder: Path, **test: Any) -> Entry:
    return entries(folder, {"test": SPEEDUP | {"value": 1.5} | test})[0]


@pytest.fixture
def verdicts(tmp_path: Path) -> list[Verdict]:
    zeros = {"label": "on zeros", "points": {"distribution": "zeros"}}
    why = {"untestable": "needs eight cards", "rows": [{"value": 3}]}
    one, two = entries(
        tmp_path, {"test": SPEEDUP | {"value": 1.5, "as_source": zeros}, "says": "faster"}, why
    )
    reason = str(two.untestable)
    return [
        Verdict(entry=one, word="does not hold", ours=OURS, as_source=OURS),
        Verdict(entry=two, word="cannot be tested", reason=reason),
    ]


def test_verdicts_are_counted_in_words(verdicts: list[Verdict]) -> None:
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
def test_numbers_have_their_unit(tmp_path: Path, test: dict[str, Any], text: str) -> None:
    assert source_text(Verdict(entry=entry(tmp_path, **test), word="holds")) == text


def test_ours_has_its_interval(verdicts: list[Verdict]) -> None:
    assert own_text(OURS, verdicts[0]) == "2x (1.98 to 2.02)"
    assert own_text(None, verdicts[0]) == "-"


def test_the_text_names_source_evidence_and_reason(verdicts: list[Verdict]) -> None:
    text = as_text("nvidia-h200", "e1", verdicts)
    assert text.startswith("nvidia-h200, e1\n  0 hold, 1 does not hold")
    assert "Made up (2026)\n  https://example.org; made on a card" in text
    assert "does not hold     1.5x +-10%  faster" in text
    assert "ours 2x (1.98 to 2.02); on zeros: 2x (1.98 to 2.02)" in text
    assert "needs eight cards" in text


def test_the_document_is_json(verdicts: list[Verdict]) -> None:
    document = json.loads(json.dumps(as_document("nvidia-h200", "e1", verdicts)))
    assert document["counts"]["does not hold"] == 1
    assert [claim["verdict"] for claim in document["claims"]] == [v.word for v in verdicts]
    assert document["claims"][0]["ours_low"] == 1.98
