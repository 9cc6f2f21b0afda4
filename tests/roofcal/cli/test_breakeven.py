"""`breakeven`: from which M on, for people and for programs; mistakes in one message."""

import json
from pathlib import Path
from typing import Any

import pytest

from roofcal.ask.beyond_probes import FAR
from roofcal.ask.breakeven import sentences
from roofcal.ask.breakeven_map import COLUMNS
from roofcal.cli.main import main

LINEAR = ["breakeven", "--device", "made-up", "--recipe", "fp8_tensorwise", "--casts", "none"]
SIDES = ["--k", "4096", "--n", "4096"]
ANSWER: dict[str, Any] = {
    "model": "calibrated",
    "device": "made-up",
    "environment": "e1",
    "n": 64,
    "k": 32,
    "products_by": "cublaslt",
    "casts_by": "triton",
    "best_products_by": "triton",
    "best_casts_by": "triton",
    "recipe": "fp8_axiswise",
    "baseline": "bf16",
    "pass": "forward_backward",
    "casts": "fastest",
    "weights": "cast",
    "m": 1008,
    "m_low": 720,
    "m_high": 1504,
    "largest_m": 131072,
    "best_m": 8192,
    "best_speedup": 1.5,
    "best_speedup_low": 1.25,
    "best_speedup_high": 1.8,
    "extrapolated": False,
    "extrapolated_doublings": 0.0,
    "m_low_extrapolated_doublings": 0.0,
    "m_high_extrapolated_doublings": 0.0,
    "best_extrapolated_doublings": 0.0,
    "probed_m": [16, 16384],
    "unprobed": False,
}


def first_line(**changes: Any) -> str:
    return next(sentences(ANSWER | changes))


def test_a_person_reads_what_it_is_and_how_far_probes_reach() -> None:
    assert list(sentences(ANSWER)) == [
        "fp8_axiswise is faster than bf16 from M = 1008 on (95 %: 720 to 1504)",
        "forward and backward of y[M,64] = x[M,32] @ w[64,32].T, casts by whoever is "
        "fastest, weights cast each time",
        "at best 1.50x (95 %: 1.25x to 1.80x), at M = 8192",
        "products by whoever is fastest at each M, as advise predicts: cublaslt, casts by triton "
        "(M = 1008); triton, casts by triton (M = 8192)",
        "model calibrated, made-up, e1",
        "M from 16 to 16384 is within the probes; what lies beyond is not counted",
    ]
    nobody_knows = {"probed_m": None, "extrapolated_doublings": None}
    assert len(list(sentences(ANSWER | nobody_knows))) == 5


def test_only_the_fastest_casts_are_those_that_advise_predicts() -> None:
    said = {
        casts: any(
            "as advise predicts" in line
            for line in sentences(ANSWER | {"casts": casts, "products_by": "triton"})
        )
        for casts in ("fastest", "none", "triton")
    }
    assert said == {"fastest": True, "none": False, "triton": False}


def test_advise_is_not_named_where_it_ranks_nothing_so_far_outside() -> None:
    said = {
        doublings: "as advise predicts"
        in " ".join(sentences(ANSWER | {"extrapolated_doublings": doublings}))
        for doublings in (0.0, FAR, FAR + 0.1)
    }
    assert said == {0.0: True, FAR: True, FAR + 0.1: False}


def test_a_person_reads_where_the_probes_end() -> None:
    outside = {"extrapolated": True, "best_extrapolated_doublings": 1.5}
    assert list(sentences(ANSWER | outside))[5] == (
        "extrapolated: doublings beyond every probe: 1.5 at M = 8192 (M from 16 to 16384 is "
        "within); intervals are wider there"
    )
    *_, end = sentences(ANSWER | {"m_high": 32768, "m_high_extrapolated_doublings": 1.0})
    assert "beyond every probe: 1.0 at M = 32768 (" in end
    far = {"extrapolated_doublings": 5.0, "probed_m": None, "unprobed": True}
    lines = list(sentences(ANSWER | outside | far))[5:]
    assert lines[0].endswith("no M is within); intervals are wider there, so far outside a guess")
    assert lines[1].startswith("no probe is like a product or a cast in it")


def test_never_perhaps_and_without_interval_are_said() -> None:
    assert first_line(m_high=None).endswith("(95 %: 720 to beyond 131072)")
    assert first_line(m=None, m_high=None).endswith(
        "is at no M up to 131072 faster than bf16 from there on (95 %: perhaps from M = 720 on)"
    )
    assert first_line(m=None, m_low=None, m_high=None) == (
        "fp8_axiswise is at no M up to 131072 faster than bf16 from there on"
    )
    silent = first_line(m_low=None, m_high=None, best_speedup_low=None, best_speedup_high=None)
    assert silent.endswith("from M = 1008 on (no interval: this model states none)")


@pytest.mark.usefixtures("checkout")
def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LINEAR, *SIDES, "--pass", "forward_backward", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == set(ANSWER)
    assert (answer["pass"], answer["casts"], answer["weights"]) == (
        "forward_backward",
        "none",
        None,
    )
    assert (answer["environment"], answer["k"], answer["largest_m"]) == ("e1", 4096, 131072)
    assert answer["m_low"] <= answer["m"]


@pytest.mark.usefixtures("checkout")
def test_a_datasheet_answers_without_interval(capsys: pytest.CaptureFixture[str]) -> None:
    other = ["breakeven", "--device", "nvidia-b200", "--recipe", "fp8_axiswise", *SIDES]
    assert main([*other, "--model", "torchao"]) == 0
    said = capsys.readouterr().out
    assert "no interval" in said
    assert "weights cast beforehand" in said
    assert "products and casts by any provider: this model knows none" in said
    assert "model torchao, nvidia-b200, its datasheet" in said


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["breakeven", "--device", "made-up"], "breakeven needs --recipe --n --k"),
        ([*LINEAR, "--k", "65", "--n", "64"], "with k in multiples of 16, got k=65"),
        ([*LINEAR[:4], "fp8_tensorwize", *SIDES], "did you mean 'fp8_tensorwise'"),
        ([*LINEAR, *SIDES, "--model", "wishful"], "unknown model 'wishful'; there are"),
        ([*LINEAR, *SIDES, "--model", "datasheet"], "there is no config/devices/made-up.yaml"),
    ],
)
def test_a_mistake_is_one_message(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_the_map_of_a_run_as_the_rule_calls_it(checkout: Path) -> None:
    run = checkout / "reports/published/made-up/e1"
    out = checkout / "results/replay/made-up/e1/breakeven.csv"
    fitted = ["--calibration", str(run / "calibration.jsonl")]
    assert main(["breakeven", "--run", str(run), *fitted, "--out", str(out)]) == 0
    header, first, *_ = out.read_text().splitlines()
    assert header == ",".join(COLUMNS)
    assert first.startswith("fp8_tensorwise,forward,none,16,512,512,")
