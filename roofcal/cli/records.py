"""What people ask of records: `compare`, `claims`, `table` and `export`.

`compare`: what moved between two runs. `claims`: whether published claims hold here. `table`: the
tidy frame of an op, and `export`: calibrated constants, for other programs. Nothing here imports
roofcal.api, which takes 0.25 s.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from roofcal.cli.commands import Command, named_device, remark_on_stderr, show, write_or_print
from roofcal.core import paths
from roofcal.core.environments import version_key
from roofcal.core.paths import (
    RunFolder,
    RunsError,
    find_run,
    run_folders,
    run_named,
    runs_with_records,
)
from roofcal.core.statistics import MATTERS


def compare(
    a: str,
    b: str,
    /,
    *,
    threshold: float = MATTERS,
    limit: float | None = None,
    json: bool = False,
    out: Path | None = None,
) -> int:
    """Print the comparison; the exit code is that of its outcome, see OUTCOMES.

    Args:
        a (A): run folder, <device>/<environment_id>, or the start of one; DIR=DERIVED as in
            `report`
        b (B): the later one
        threshold: changes below do not matter (0.02)
        limit: a slowdown beyond it is a regression (default: threshold)
        json: for programs, every point
    """
    from roofcal.compare.as_text import Comparison
    from roofcal.compare.comparison import OUTCOMES
    from roofcal.compare.comparison import compare as compared

    earlier, later = (
        run_named(named_device(name), (paths.PUBLISHED, paths.RESULTS)) for name in (a, b)
    )
    comparison = compared(earlier, later, threshold, limit)
    show(Comparison(comparison), as_json=json, out=out)
    return OUTCOMES[comparison["outcome"]]


def claims(
    *,
    ledger: str | None = None,
    json: bool = False,
    device: str | None = None,
    environment: str | None = None,
) -> None:
    """Print the verdicts, device by device.

    Args:
        ledger: claims of config/claims/<ledger>.yaml alone
        json: for programs, with what was printed
        device: e.g. nvidia-h200; default: all with records
        environment: with --device; default: the latest calibrated one
    """
    from roofcal.ask.devices import datasheet
    from roofcal.claims import load_claims
    from roofcal.core.names import did_you_mean_or_all
    from roofcal.points.run import load_run
    from roofcal.report.data.claims import JudgedClaims, judge

    if environment and not device:
        raise ValueError("--environment needs --device")
    entries = load_claims(paths.CLAIMS)
    ledgers = list(dict.fromkeys(entry.ledger.ledger for entry in entries))
    if not ledgers:
        raise ValueError(f"{paths.CLAIMS}: holds no claims")
    if ledger not in (None, *ledgers):
        raise ValueError(f"unknown ledger '{ledger}'{did_you_mean_or_all(str(ledger), ledgers)}")
    chosen = [entry for entry in entries if ledger in (None, entry.ledger.ledger)]
    devices = [device] if device else sorted({run.device for run in runs_with_records()})
    if not devices:
        raise RunsError("nothing is measured or published; `make study` measures this machine")
    verdicts = {}
    for run in [find_run(name, environment) for name in devices]:
        opened = load_run(run.folder, run.derived)
        verdicts[run.device, run.environment_id] = judge(chosen, opened, datasheet(run.device))
    show(JudgedClaims(verdicts), as_json=json)


def table(
    *,
    device: str,
    op: str,
    environment: str | None = None,
    format: Literal["csv", "json", "markdown", "latex"] = "csv",
    json: bool = False,
    where: list[str] | None = None,
    columns: Sequence[str] = (),
) -> None:
    """Print the tidy frame of an op.

    Args:
        op: e.g. gemm
        environment: default: the latest calibrated one
        format: how it is written; default: csv
        json: as --format json
        where (CONDITION): only rows that fit, as 'm = 4096' or 'provider != triton'; may be given
            again
        columns (NAMES): these columns, with commas between
    """
    from roofcal.export.frames import RunFrames
    from roofcal.report.data.table_files import table_text, tidy_table

    try:
        run = find_run(device, environment)
    except RunsError:  # of a publication without samples, as in a wheel, its own table
        without_samples = [
            run
            for run in run_folders(paths.PUBLISHED)
            if run.device == device
            and environment in (None, run.environment_id)
            and not run.measured_ops()
            and (run.folder / "tables").is_dir()
        ]
        if not without_samples:
            raise
        latest = max(without_samples, key=lambda run: version_key(run.environment_id))
        frame = RunFrames(device, latest.environment_id, latest).table(op)
    else:
        frame = tidy_table(run.folder, run.derived, op)
    form = "json" if json else format
    sys.stdout.write(table_text(frame, form, where or [], columns))


def export(
    *,
    device: str,
    environment: str | None = None,
    format: str = "json",
    json: bool = False,  # noqa: ARG001 (the default of --format)
    out: Path | None = None,
) -> None:
    """Print calibrated constants for another tool, and say where they come from.

    Args:
        format: torchao, aiconfigurator, calculon, llm-analysis, genz, csv, json, yaml, markdown or
            latex
        json: as --format json
        out (FILE): default: print it
    """
    from roofcal.ask.devices import datasheet
    from roofcal.export.formats import check_format
    from roofcal.export.formats import export as exported
    from roofcal.export.subject import Subject
    from roofcal.models.calibrations import find_calibration

    check_format(format)
    folder, calibration = find_calibration(device, environment, paths.PUBLISHED, paths.RESULTS)
    subject = Subject.of_run(RunFolder.at(folder), calibration, datasheet(calibration.device))
    write_or_print(exported(format, subject), out)
    remark_on_stderr(f"from: {folder}")


TABLE: Final = Command({"": table}, either=("format", "json"))
EXPORT: Final = Command({"": export}, either=("format", "json"), is_needed=True)
