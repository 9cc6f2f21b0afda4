"""Where numbers come from, and the commands that make them again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from roofcal.core.paths import RunFolder
from roofcal.report.data import provenance
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.blocks import Commands
from roofcal.report.sections.provenance import SESSION
from tests.roofcal.report.chapters import blocks_of, plain, shown_of
from tests.roofcal.report.synthetic import CPU, GPU, MadeUpRun, product

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


def test_sessions_say_when_where_and_by_which_command(tmp_path: Path) -> None:
    run = MadeUpRun()
    run.measure(product(64, 64, 64))

    def session(folder: str) -> Any:
        shown = shown_of(run.analysed(tmp_path / folder), "provenance")
        return shown.tables["sessions"].frame.iloc[0]

    row = session("git")
    assert row["started_utc"] == "2026-11-21 04:00:00"
    assert (row["commit"], row["code"], row["dirty"]) == ("0123456789ab", "fedcba987654", "no")
    assert row["command"] == "python -m roofcal measure --plan plan/gemm.jsonl"
    assert row["timing"] == '{"budget_s": 0.4}'
    run.sessions["gemm"] = {"git_commit": None, "git_dirty": None}
    row = session("no_git")
    assert (row["commit"], row["dirty"]) == (None, "unknown")
