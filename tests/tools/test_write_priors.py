"""How far cards lie from what others say of them, on two cards that are one but for a datasheet."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.calibrate import calibrate
from roofcal.ops.priors import fractions_of
from tests.roofcal.calibrate.probe_runs import write_run
from tests.roofcal.models.runs import SPEC
from tests.roofcal.resamples import draw_few_resamples
from tools.write_priors import errors_between

PRODUCT, CAST = "gemm.made.bf16", "cast.made.fp8_rowwise_dim0"


def test_each_card_is_predicted_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_few_resamples(monkeypatch)
    run = write_run(tmp_path)
    card = fractions_of(calibrate(run, SPEC), SPEC)
    assert errors_between([(run, SPEC)], [card]) == {}  # there is no other
    twin = replace(card, device="twin")

    alike = errors_between([(run, SPEC), (run, SPEC)], [card, twin])
    assert set(alike) == {PRODUCT, CAST}
    assert alike[PRODUCT]["count"] == 2 * card.probe_errors[PRODUCT]["count"]
    assert alike[PRODUCT]["mape"] < 0.05
    assert alike[CAST]["mape"] < 0.05

    half = {"bf16": SPEC.peak_flops_per_s["bf16"] / 2}
    slow = replace(SPEC, peak_flops_per_s=half, dram_bytes_per_s=SPEC.dram_bytes_per_s / 2)
    unlike = errors_between([(run, SPEC), (run, slow)], [card, twin])
    # The first is predicted as before, and the second far too slow.
    for pair in (PRODUCT, CAST):
        assert 0.1 < unlike[pair]["mape"] < 0.5
        assert unlike[pair]["log_p95"] > 0.5 > alike[pair]["log_p95"]
