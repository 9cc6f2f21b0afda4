"""Sentences a manager reads first: their numbers are those of the tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofcal.core.devices import DeviceSpec, load_devices
from roofcal.core.records import PlanPoint, Protocol, Status
from roofcal.models.calibrations import cards_like
from roofcal.report import summary
from roofcal.report.checks import all_checks, disturbances
from roofcal.report.data.analysis import Analysis
from roofcal.report.write import write_report
from tests.roofcal.report.chapters import plain
from tests.roofcal.report.conftest import DEVICES
from tests.roofcal.report.synthetic import (
    GPU,
    MadeUpRun,
    add_constants,
    product,
    samples_around,
    true_seconds,
)


def summary_text(analysis: Analysis) -> str:
    return plain(" ".join(summary.summary_sentences(analysis)))


def checked(analysis: Analysis) -> list[str]:
    """'<state>: <text>' of every check."""
    return [f"{check.state}: {plain(check.text)}" for check in all_checks(analysis)]


def look(tmp_path: Path, made_up: MadeUpRun, spec: DeviceSpec | None = None) -> Analysis:
    return made_up.analysed(tmp_path, spec)


def test_a_card_whose_memory_is_slower_than_that_of_published_cards_is_named(
    tmp_path: Path,
) -> None:
    spec = load_devices(DEVICES)["nvidia-h200"]
    (card,) = (card for card in cards_like(spec) if card.device == "nvidia-h200")
    rate = card.constants["dram_read_bytes_per_s"].value * spec.dram_bytes_per_s

    def said(factor: float) -> str:
        run = MadeUpRun(GPU)
        run.measure(product(1024, 1024, 1024))
        run.constant("dram_read_bytes_per_s", factor * rate, "B/s")
        return " ".join(checked(look(tmp_path / str(factor), run, spec)))

    assert "look: Memory reads are 18% slower than nvidia-h200 as published." in said(0.82)
    assert "ok: Memory and long products are as fast as those of other published" in said(0.97)


def test_lines_for_a_terminal_have_the_numbers_of_the_first_table(analysis: Analysis) -> None:
    line = summary.device_line(analysis)
    assert (line["device"], line["beyond"]) == ("NVIDIA H200", 0)
    measured, rates, error = (plain(text) for text in summary.headlines(analysis, line))
    assert f"Measured: {analysis.points} points of 4 ops" in measured
    assert rates == (
        "Rates: bf16 599 TFLOP/s, fastest recipe 1,195 TFLOP/s, memory copies 4.00 TB/s."
    )
    off = f"{100 * line['mape']:.1f} % off"
    assert error == f"Predictions of gemm: {off} on 48 products that no fit has seen."

    bare = dict.fromkeys(line) | {"device": "Test"}
    assert summary.headlines(analysis, bare)[1:] == [
        "Rates: not calibrated.",
        "Predictions of gemm: none.",
    ]


def test_a_run_that_began_no_faster_says_nothing_of_short_benchmarks(tmp_path: Path) -> None:
    steady = MadeUpRun()
    steady.measure(product(8192, 8192, 8192), burst_s=true_seconds(product(8192, 8192, 8192)))
    add_constants(steady)
    assert "prints more" not in summary_text(look(tmp_path, steady))


def test_a_bare_run_says_what_it_lacks_and_calls_no_recipe_the_fastest_that_serves_no_linear(
    bare_analysis: Analysis,
) -> None:
    assert "Nothing is calibrated" in summary_text(bare_analysis)
    assert (bare_analysis.speedups["gemm"]["recipe"] == "int8").any()
    assert summary.fastest_recipes(bare_analysis).empty
    line = summary.device_line(bare_analysis)
    assert [line[key] for key in ("memory", "mape", "judged", "beyond", "gain")] == [None] * 5
    assert line["ok"] == 2
    said = summary.verdict(bare_analysis)
    assert said.startswith(
        "No narrow recipe that serves a linear was measured beside its baseline."
    )
    assert "Not usable in a linear here, because their casts were not measured: " in said
    assert "int8" in said


def drifting(by: float, **session: Any) -> MadeUpRun:
    """Products, and a sentinel whose last repetition is slower by a fraction."""
    made_up = MadeUpRun()
    made_up.measure(product(8192, 8192, 8192))
    for repeat in (1, 2, 3):
        point = product(64, 64, 64, repeat=repeat, sweeps=("sentinel",))
        made_up.measure(point, seconds=true_seconds(point) * (1 + by * (repeat == 3)))
    made_up.sessions["gemm"] = session
    return made_up


def in_two_states() -> MadeUpRun:
    """One of two sentinels is 15 % slower in its last repetition."""
    made_up = drifting(0.15)
    for repeat in (1, 2, 3):
        point = product(128, 128, 128, repeat=repeat, sweeps=("sentinel",))
        made_up.measure(point, seconds=true_seconds(point))
    return made_up


def timed(point: PlanPoint, seconds: float | None = None, **samples: Any) -> MadeUpRun:
    """A calibrated run of one point."""
    made_up = MadeUpRun()
    add_constants(made_up)
    made_up.measure(point, seconds, **samples)
    return made_up


def without_time(point: PlanPoint, status: Status) -> MadeUpRun:
    """A calibrated run whose only point failed."""
    made_up = MadeUpRun()
    add_constants(made_up)
    made_up.fail(point, status, "why")
    return made_up


BIG, SMALL = product(8192, 8192, 8192), product(64, 64, 64)
ZEROS = product(8192, 8192, 8192, protocol=Protocol(distribution="zeros"))
WIDE = samples_around(true_seconds(SMALL), spread=0.2)


@pytest.mark.parametrize(
    ("made_up", "says"),
    [
        (
            timed(BIG, 2 * 8192**3 / 989.5e12 / 1.25),
            "look: 1 point is faster than the datasheet allows, by up to 1.25x: see Points "
            "faster than a roof.",
        ),
        (
            timed(ZEROS, 2 * 8192**3 / 700e12),
            "ok: No cold point is faster than the calibrated ceilings.",
        ),
        (
            without_time(BIG, "failed"),
            "look: No point has a time to compare with datasheet and ceilings.",
        ),
        (without_time(BIG, "unsupported"), "note: 1 point has no time: 1 unsupported."),
        (drifting(0.05), "look: The repeated sentinel of gemm stayed within 5.0 %."),
        (
            drifting(17.169),
            "look: The repeated sentinel of gemm moved by 1716.9 % in a session: the times of that "
            "session are not to be trusted.",
        ),
        (
            in_two_states(),
            "look: One repeated sentinel of gemm moved by 15.0 % in a session, the others less: "
            "that point has several states.",
        ),
        (drifting(0.0, git_dirty=True), "look: Measured from a checkout with uncommitted changes."),
        (
            timed(SMALL, samples=WIDE),
            "note: 100 % of the medians of gemm are uncertain by more than 1 %.",
        ),
    ],
)
def test_what_is_as_it_should_be_and_what_is_a_reason_to_look(
    tmp_path: Path, h200: DeviceSpec, made_up: MadeUpRun, says: str
) -> None:
    checks = checked(look(tmp_path, made_up, h200))
    assert says in checks
    if "No point has a time" in says:
        assert not [other for other in checks if "is faster than" in other]


def test_sessions_whose_sentinels_differ_cannot_be_compared(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for repeat, factor in ((1, 1.0), (2, 1.2)):
        point = product(64, 64, 64, repeat=repeat, sweeps=("sentinel",))
        made_up.measure(point, seconds=true_seconds(point) * factor)
    analysis = look(tmp_path, made_up)
    frame = analysis.frames["gemm"]
    sessions = [f"s{number}" for number in range(len(frame))]
    apart = replace(analysis, frames={**analysis.frames, "gemm": frame.assign(session_id=sessions)})

    assert (
        "look: The repeated sentinel of gemm moved by 20.0 % between sessions: "
        "times of different sessions cannot be compared."
    ) in checked(apart)


def test_two_cards_in_one_run_are_a_reason_to_look(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64))
    made_up.measure(replace(product(64, 128, 64), op="probe_math"))
    one_card = checked(look(tmp_path / "one", made_up))
    assert not [text for text in one_card if "cards of this model" in text]

    for cards, count, says in (
        ("GPU-2", 2, "(probe_math, gemm on one)"),
        ("GPU-2,GPU-3", 3, "gemm on 2"),  # those of a point of two ranks
    ):
        made_up.sessions["gemm"] = {"device_uuid": cards}
        checks = checked(look(tmp_path / cards, made_up))
        (text,) = [one for one in checks if one.startswith(f"look: Measured on {count} cards of")]
        assert says in text


@pytest.mark.parametrize(
    ("made_up", "reasons"),
    [
        (drifting(0.05), []),
        (drifting(0.2), ["The repeated sentinel of gemm moved by 20.0 % in a session."]),
        (in_two_states(), []),
        (
            drifting(0.0, busy_share=0.95, other_processes=2),
            [
                "Other processes kept 95 % of the processor cores busy.",
                "2 other processes used the card.",
            ],
        ),
        (
            drifting(0.0, throttled_share=0.95),
            ["The CPU quota of the container stopped its threads in 95 % of periods."],
        ),
    ],
)
def test_what_disturbs_all_answers_is_named(
    tmp_path: Path, made_up: MadeUpRun, reasons: list[str]
) -> None:
    told = disturbances(look(tmp_path, made_up))
    assert [plain(reason) for reason in told] == reasons


def test_what_disturbs_stands_above_the_answers_which_are_closed(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    first, *_ = write_report([(drifting(0.2).write(tmp_path / "run"), None)], page, DEVICES)
    assert first.startswith("note: too noisy to use, measure again: The repeated")
    text = page.read_text()
    strip = text[text.index("Too noisy to use") : text.index("</article>")]
    assert strip.index("<details>") < strip.index('<dl class="numbers">')
    assert strip.index("</dl>") < strip.index("</details>")
    assert text.index("Too noisy to use") < text.index("Answers, from records")
    assert text.index("Answers, from records") < text.index('class="answer"')
