"""The section on claims: counts first, each source with its link, a word and a sign per verdict."""

import re
from pathlib import Path

import pytest

from roofcal.claims import load_claims
from roofcal.core.devices import DeviceSpec
from roofcal.points.run import Run
from roofcal.report.data.analysis import Analysis, analyse
from roofcal.report.kit.blocks import Table
from roofcal.report.summary import summary_sentences
from tests.paths import ROOT
from tests.roofcal.claim_ledgers import SPEEDUP, entries
from tests.roofcal.report.chapters import blocks_of, shown_of

CLAIMS = ROOT / "config/claims"


@pytest.fixture(scope="module")
def judged(run: Run, h200: DeviceSpec) -> Analysis:
    return analyse(run, h200, claims=load_claims(CLAIMS))


def test_the_counts_stand_on_top_and_every_source_has_its_link_and_claims(
    judged: Analysis, analysis: Analysis
) -> None:
    file = shown_of(judged, "claims").files["claims.csv"]
    assert {"theirs", "ours", "ours_low", "ours_high", "verdict", "url"} <= set(file.columns)
    assert len(file) == len(judged.claims)
    assert not shown_of(analysis, "claims").files, "without a ledger"
    assert any(" published claims " in sentence for sentence in summary_sentences(judged))
    first, *rest = blocks_of(judged, "claims")
    words = [verdict["verdict"] for verdict in judged.claims]
    assert f"Of {len(words)} published claims: {words.count('holds')} hold, " in first.text
    abouts, tables = rest[::2], rest[1::2]
    ledgers = {v["entry"].ledger.ledger: v["entry"].ledger for v in judged.claims}
    assert [about.link for about in abouts] == [ledger.title for ledger in ledgers.values()]
    assert "https://github.com/pytorch/ao/pull/940" in [about.url for about in abouts]
    assert sum(table.total for table in tables) == len(judged.claims)
    text = {about.link: about.text for about in abouts}
    mamf = next(text[link] for link in text if "mamf-finder" in link)
    assert mamf.startswith("Made on NVIDIA H200 SXM, 2025. Means of 100 calls")
    gemm = next(sentence for sentence in text.values() if "fp8 on zeros" in sentence)
    assert ": other hardware than this. The source timed fp8 on zeros" in gemm


def test_a_row_has_word_class_and_both_numbers(run: Run, h200: DeviceSpec, tmp_path: Path) -> None:
    rows = [{"cube": 8192, "value": 2.0}, {"cube": 8192, "value": 9.0}, {"cube": 64, "value": 1}]
    claims = [
        {"id": f"c{number}", "test": SPEEDUP, "rows": [row], "note": "mind", "hardware": "two"}
        for number, row in enumerate(rows)
    ]
    judged_again = analyse(run, h200, claims=entries(tmp_path, *claims))
    (table,) = [block for block in blocks_of(judged_again, "claims") if isinstance(block, Table)]
    assert re.findall(r'<td class="v (\w+)">([^<]+)</td>', table.body) == [
        ("yes", "holds"),
        ("no", "does not hold"),
        ("none", "cannot be tested"),
    ]
    assert "2x +-10%" in table.body
    assert re.search(r'data-v="1\.9\d+">1\.9\d+x \(1\.9\d+ to [12][.\d]*\)<', table.body)
    assert "no point of gemm with recipe fp8_tensorwise" in table.body
    assert "against bf16 by cublaslt" in table.body
    assert "; mind; made on two" in table.body
