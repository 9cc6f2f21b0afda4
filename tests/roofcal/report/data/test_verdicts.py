"""Verdicts in words for the terminal, and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.claims.ledgers import Entry
from roofcal.report.data.claims import Verdict
from roofcal.report.data.own_numbers import Ours
from roofcal.report.data.verdicts import as_document, as_text, ours, summary, theirs
from tests.roofcal.claims.ledgers import SPEEDUP, entries

OURS = Ours(value=2.0, low=1.98, high=2.02, basis="points")


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
    assert summary(verdicts) == "0 hold, 1 does not hold, 1 cannot be tested here"
    assert summary(verdicts[:1] * 2) == "0 hold, 2 do not hold, 0 cannot be tested here"


@pytest.mark.parametrize(
    ("test", "said"),
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
def test_numbers_have_their_unit(tmp_path: Path, test: dict[str, Any], said: str) -> None:
    assert theirs(Verdict(entry=entry(tmp_path, **test), word="holds")) == said


def test_ours_has_its_interval(verdicts: list[Verdict]) -> None:
    assert ours(OURS, verdicts[0]) == "2x (1.98 to 2.02)"
    assert ours(None, verdicts[0]) == "-"


def test_the_text_names_source_claim_numbers_and_reason(verdicts: list[Verdict]) -> None:
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
