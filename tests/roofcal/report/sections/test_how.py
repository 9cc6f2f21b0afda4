"""Sections on how a run was measured: quality, methods, missing points, provenance."""

from dataclasses import replace
from pathlib import Path

import pytest

from roofcal.core.paths import RunFolder
from roofcal.core.records import Method, Protocol, Telemetry
from roofcal.points.columns import INTERVAL_HOLDS
from roofcal.report.checks import all_checks
from roofcal.report.data import provenance
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Commands
from roofcal.report.sections.points import readable_points
from roofcal.report.sections.provenance import SESSION
from tests.roofcal.report.chapters import Shown, blocks_of, plain, shown_of
from tests.roofcal.report.synthetic import CPU, GPU, MadeUpRun, cast, product, telemetry


@pytest.fixture(scope="module")
def shown(analysis: Analysis) -> Shown:
    return shown_of(analysis, "quality")


def test_sentinel_clock_power_and_temperature_share_the_time(
    shown: Shown, bare_analysis: Analysis
) -> None:
    chart = shown.figures["session"]
    facts = plain(chart.facts)
    assert "The sentinel of gemm was measured 5 times and spread over 1.0 %." in facts
    assert "Power from 690 W to 690 W." in facts
    assert len(chart.panels) == 4
    assert len(chart.tables["sentinels"]) == 5
    assert not shown_of(bare_analysis, "quality").figures, "without sensors and warm-up"


def test_the_page_says_that_intervals_of_one_visit_hold_no_other(
    analysis: Analysis, shown: Shown
) -> None:
    texts = [check.text for check in all_checks(analysis)]
    assert any("have an interval that covers the samples of one visit only" in t for t in texts)
    ending = "to either side and covers the samples of one visit only."
    assert shown.answer.endswith(ending)
    gemm = analysis.frames["gemm"]
    held = gemm[INTERVAL_HOLDS].where(gemm[INTERVAL_HOLDS].isna(), "this session")
    frames = {**analysis.frames, "gemm": gemm.assign(**{INTERVAL_HOLDS: held})}
    assert shown_of(analysis, "quality", **frames).answer.endswith("to either side.")


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """23 products with two states, of which the m-th is 6 + m % apart, and a cast."""
    made_up = MadeUpRun()
    for m in range(1, 24):
        made_up.visit(product(m, 4096, 4096), 100e-6, (106 + m) * 1e-6)
    made_up.visit(product(32, 4096, 4096), 100e-6, 104e-6)
    made_up.visit(cast(1024, 8192, "fp8_rowwise_dim0"), 10e-6, 20e-6)
    return made_up.analysed(tmp_path_factory.mktemp("states"))


def test_the_twenty_points_of_widest_states_are_shown_and_the_rest_counted(
    states: Analysis,
) -> None:
    shown = shown_of(states, "quality")
    table = shown.tables["quality-states"]
    assert table.total == 20
    assert "; 4 more are in the tables of ops, column states_s" in table.caption
    assert shown.answer.endswith("; 24 points have visits more than 5 % apart.")
    assert list(table.frame["spread"].round(6)[:2]) == [1.0, 0.29]
    assert list(table.frame["states"][:2]) == ["10.00 (1); 20.00 (1)", "100.0 (1); 129.0 (1)"]
    assert list(map(plain, table.frame["shape"][:2])) == ["1,024 x 8,192", "23 x 4,096 x 4,096"]
    every = readable_points(states.frames["gemm"]).set_index("m")["states"]
    assert (every[1], every[32]) == ("100.0 (1); 107.0 (1)", None)


def test_a_panel_point_without_its_standard_time_has_no_ratio(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    made_up.measure(product(64, 64, 64, protocol=Protocol(method="wall"), sweeps=("panel_cpu",)))
    made_up.fail(product(64, 64, 64, sweeps=("panel_cpu",)), "failed", "x")
    shown = shown_of(made_up.analysed(tmp_path), "method-panel")
    assert list(shown.files["method_panel.csv"]["ratio"].isna()) == [True]
    assert not shown.figures


def facts_of_turns(folder: Path, full_clock: Telemetry, at_limit: Telemetry) -> str:
    """What the figure says of two products that were timed in turns, alone and in a burst."""
    run = MadeUpRun()
    run.sessions["gemm"] = {"timing": {"burst_s": 0.02, "burst_rest_s": 2.0}}
    for size, alone, readings in ((1024, 1.002, full_clock), (8192, 1.03, at_limit)):
        factors: dict[Method, float] = {"graph": 1.0, "alone": alone, "burst": 0.9}
        for method, factor in factors.items():
            point = product(*(size,) * 3, protocol=Protocol(method=method), sweeps=("panel_turns",))
            run.measure(point, seconds=1e-4 * factor, telemetry=readings)
    return plain(shown_of(run.analysed(folder), "method-panel").figures["method_panel"].facts)


def test_time_alone_is_told_apart_at_the_power_limit_and_below_it(tmp_path: Path) -> None:
    full_clock, at_limit = telemetry(1.98e9, 400.0), telemetry(1.4e9, 690.0, ("power_cap",))
    facts = facts_of_turns(tmp_path, full_clock, at_limit)
    assert "alone, cold at the power limit 1.03x; alone, cold below it 1.00x; burst" in facts
    assert (
        "Times in turns and alone differ by 1.6 % (aim: at most 1 %) in the median over "
        "2 points, and by 2.9 % (aim: at most 4 %) in the 95th percentile."
    ) in facts


def test_time_alone_is_one_range_where_no_clock_was_read(tmp_path: Path) -> None:
    facts = facts_of_turns(tmp_path, Telemetry(), Telemetry())
    assert "alone, cold 1.00x to 1.03x; burst" in facts
    assert "A burst took 20 ms after a rest of 2 s." in facts


def test_reasons_that_differ_in_numbers_alone_are_counted_together(tmp_path: Path) -> None:
    made_up = MadeUpRun()
    for n in (17, 555, 1001):
        made_up.fail(product(64, n, 64), "unsupported", f"n={n} is no multiple of 16")
    made_up.fail(product(64, 64, 64), "failed", "out of luck")
    analysis = made_up.analysed(tmp_path)
    counted = shown_of(analysis, "missing").tables["reasons"].frame
    assert list(counted["count"]) == [3, 1]
    assert counted["reason"][0] == "n=17 is no multiple of 16"
    assert list(map(plain, counted["example"])) == ["64 x 17 x 64", "64 x 64 x 64"]


RUN = f"nvidia-h200/{GPU.environment_id}"


def test_an_environment_in_the_units_people_use() -> None:
    facts = {label: plain(value) for label, value in provenance.environment_facts(GPU)}
    assert facts["power limit"] == "700.0 W"
    assert facts["memory clock"] == "3,201 MHz"
    assert (facts["ECC"], facts["MIG"]) == ("on", "off")
    assert facts["memory bus"] == "6016 bit"
    assert "NCCL" not in facts
    assert "driver" not in dict(provenance.environment_facts(CPU))
    assert dict(provenance.environment_facts(CPU))["last-level cache"] == "32 MiB"


def test_folders_are_named_as_in_any_checkout(analysis: Analysis) -> None:
    run = analysis.run
    assert provenance.run_path(run) == provenance.derived_path(run) == f"results/{RUN}"
    published = replace(run, origin="published", files=RunFolder.at(run.folder, Path("elsewhere")))
    assert provenance.run_path(published) == f"reports/published/{RUN}"
    assert provenance.derived_path(published) == f"results/replay/{RUN}"
    lines = provenance.commands(replace(analysis, run=published))
    assert not any(line.startswith("make study") for line in lines)
    assert f"--run reports/published/{RUN}=results/replay/{RUN}" in lines[-1]
    # nothing writes over a publication that is shown as it was frozen
    lines = provenance.commands(replace(analysis, run=replace(run, origin="published")))
    assert lines[-1].startswith(f"roofcal verify reports/published/{RUN}")
    assert not any("--out" in line for line in lines)


def test_the_commands_lead_from_records_to_page(analysis: Analysis) -> None:
    (command_block,) = [b for b in blocks_of(analysis, "provenance") if isinstance(b, Commands)]
    lines = command_block.lines
    assert lines[0] == "git checkout 0123456789abcdef"
    assert lines[-1] == (f"roofcal report --run results/{RUN} --out results/report/report.html")
    assert sum("roofcal predict" in line for line in lines) == 2  # gemm and cast
    assert provenance.table_command(analysis.run, "cast") == (
        f"roofcal table --device nvidia-h200 --environment {GPU.environment_id} --op cast"
    )


def test_a_name_in_the_place_of_a_commit_is_called_one(analysis: Analysis) -> None:
    (column,) = (one for one in SESSION if one.key == "commit")
    session = analysis.all_sessions[0]

    def shown(commit: str | None) -> str | None:
        return SESSION[column](replace(session, git_commit=commit))

    assert shown("69959c78bb02e158b44063e33450161facafa6df") == "69959c78bb02"
    assert shown("69959c78") == "69959c78"
    assert shown("any-card") == "any-card (a name, no commit)"
    assert shown(None) is None


def test_what_is_made_anew_of_a_replay_leaves_the_publication_alone(analysis: Analysis) -> None:
    run = replace(analysis.run, origin="published")
    assert provenance.commands_anew(run, "a", "a", []) == ["roofcal publish --again a"]
    first, *predictions = provenance.commands_anew(run, "a", "b", ["c/calibration.jsonl"])
    assert first == "roofcal calibrate --run a --out b/calibration.jsonl"
    also = "--also c/calibration.jsonl --out b/predictions"
    assert [line.rpartition("--op ")[2] for line in predictions] == [
        f"{op} {also}/{op}.jsonl" for op in ("gemm", "cast")
    ]
