"""What people ask of calibrations and records: all but `predict`, which has a file of its own.

Most modes of `advise`, `breakeven` and `llm` are functions of roofcal.api; those here read a file
or a run folder. `compare`: what moved between two runs. `claims`: whether published claims hold
here. `table`: the tidy frame of an op, and `export`: calibrated constants, for other programs.
"""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from roofcal.cli.commands import (
    Command,
    MxNxK,
    NxK,
    checked_folder,
    fill_axes,
    named_device,
    question,
    refuse,
    show,
    write_or_print,
)
from roofcal.core import paths
from roofcal.core.environments import version_key
from roofcal.core.paths import RunFolder, run_folders
from roofcal.core.statistics import MATTERS
from roofcal.ops.linear.model import Passes, Weights

if TYPE_CHECKING:
    import pandas as pd


def many_linears(
    *,
    shapes: Path,
    device: str,
    environment: str | None = None,
    passes: Passes = "forward",
    weights: Weights | None = None,
    model: str = "calibrated",
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Print the fastest option of every linear of a CSV.

    Args:
        shapes (CSV): columns m,n,k: many linears
        out: with --shapes: write here
    """
    from roofcal.ask.advice_text import advise_csv
    from roofcal.ask.advise import Adviser
    from roofcal.ask.devices import device_sources
    from roofcal.ask.measured import measured_by_key
    from roofcal.models.registry import model_named
    from roofcal.ops.linear.model import usual_weights

    sources, folder = device_sources(device, environment, model)
    measured = measured_by_key(RunFolder.at(folder) if sources.calibration else None)
    adviser = Adviser(model_named(model), sources, measured)
    answer = advise_csv(shapes, adviser, passes, weights or usual_weights(passes))
    show(answer, as_json=json, out=out)
    print(f"from: {folder}", file=sys.stderr)


def map_of_run(*, run: Path, calibration: Path | None = None, out: Path | None = None) -> None:
    """Write the map of a run folder.

    Args:
        run (FOLDER): the map of a run folder, as CSV
        out: with --run: write here
    """
    from roofcal.ask.breakeven_map import run_map

    fitted = calibration or RunFolder.at(run).calibration_file
    write_or_print(run_map(checked_folder(run), fitted), out)


def _without_weights(asked: dict[str, Any], words: Sequence[tuple[int, ...]]) -> None:
    """Raises ValueError for weights of a linear without casts."""
    if asked.get("casts") == "none" and "weights" in asked:
        refuse(["--weights"], "--casts none")
    fill_axes(asked, "nk", words)


def table_of_run(*, run: Path, calibration: Path | None = None, out: Path | None = None) -> None:
    """Write the table of a run folder.

    Args:
        run (FOLDER): every model on the device of a run folder, as CSV
        out: with --run: write here
    """
    from roofcal.ask.devices import datasheet
    from roofcal.ask.llm.csv_table import run_table
    from roofcal.core.language_models import load_models

    fitted = calibration or RunFolder.at(run).calibration_file
    models = load_models(paths.MODELS)
    write_or_print(run_table(checked_folder(run), fitted, datasheet(run.parent.name), models), out)


def notebook(
    *,
    by: Literal["calibrated", "wave", "torchao", "datasheet", "notebook"],  # noqa: ARG001 (it chose)
    json: bool = False,
) -> None:
    """Print what the example of the MI300X notebook prints, which stands in a clone alone.

    Args:
        by: the model of time; notebook: the figures of the MI300X notebook, as it has them
    """
    example = paths.CHECKOUT / "examples/mi300_notebook.py"
    if not example.is_file():
        raise ValueError(
            "--by notebook is for a clone of the repository: `python examples/mi300_notebook.py`"
        )
    runpy.run_path(str(example))["main"](["--json"] if json else [])


def _one_batch(asked: dict[str, Any], _words: Sequence[tuple[int, ...]]) -> None:
    """Raises ValueError for a batch beside a cut: of a curve it does nothing but choose the cut."""
    if "batch" in asked and {"tp", "pp"} & {*asked}:
        refuse(["--batch"], "--curve at a given --tp or --pp")


def devices(*, json: bool = False) -> None:
    """Print the devices."""
    from roofcal.ask.devices import Devices

    show(Devices(), as_json=json)


def judge(
    table: Path,
    /,
    *,
    device: str,
    environment: str | None = None,
    clock: Literal["settled", "burst"] = "settled",
    model: str = "calibrated",
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Print the page of errors, and write the products where asked to.

    Args:
        table (CSV): columns recipe,m,n,k,seconds and maybe casts_by
        clock: settled: seconds under load; burst: a few milliseconds from a cool start
        json: the errors, for programs
        out: write every product with its prediction here
    """
    from roofcal.ask.devices import device_sources
    from roofcal.ask.outside import hold_against
    from roofcal.models.registry import model_named

    sources, folder = device_sources(device, environment, model)
    run = RunFolder.at(folder) if sources.calibration else None
    evidence = hold_against(table, model_named(model), sources, run, clock=clock)
    if not evidence.products:
        raise ValueError(f"{table}: no answer: {'; '.join(evidence.unanswered)}")
    if out:
        show(evidence.products_csv(), out=out)
    show(evidence, as_json=json)


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
    from roofcal.study.run_search import run_named

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
    from roofcal.report.data.claims import JudgedClaims, evidence_of_run, judge
    from roofcal.study.run_search import find_run, runs_with_records
    from roofcal.study.runs import RunsError

    if environment and not device:
        raise ValueError("--environment needs --device")
    entries = load_claims(paths.CLAIMS)
    ledgers = list(dict.fromkeys(entry.ledger.ledger for entry in entries))
    if not ledgers:
        raise ValueError(f"{paths.CLAIMS}: holds no claims")
    if ledger not in (None, *ledgers):
        raise ValueError(f"unknown ledger '{ledger}'{did_you_mean_or_all(str(ledger), ledgers)}")
    asked = [entry for entry in entries if ledger in (None, entry.ledger.ledger)]
    devices = [device] if device else sorted({run.device for run in runs_with_records()})
    if not devices:
        raise RunsError("nothing is measured or published; `make study` measures this machine")
    verdicts = {}
    for run in [find_run(name, environment) for name in devices]:
        evidence = evidence_of_run(load_run(run.folder, run.derived), datasheet(run.device))
        verdicts[run.device, run.environment_id] = judge(asked, evidence)
    show(JudgedClaims(verdicts), as_json=json)


def table(
    *,
    device: str,
    op: str,
    environment: str | None = None,
    format: Literal["csv", "json", "markdown", "latex"] = "csv",
    json: bool = False,
    where: list[str] | None = None,
    columns: str = "",
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
    from roofcal.report.data.table_files import table_text

    names = [name.strip() for name in columns.split(",") if name.strip()]
    form = "json" if json else format
    sys.stdout.write(table_text(_frame(device, op, environment), form, where or [], names))


def _frame(device: str, op: str, environment: str | None) -> "pd.DataFrame":
    """The tidy frame by the records; that of the publication where it is without its samples."""
    from roofcal.export.frames import RunFrames
    from roofcal.report.data.table_files import tidy_table
    from roofcal.study.run_search import find_run
    from roofcal.study.runs import RunsError

    try:
        run = find_run(device, environment)
    except RunsError:
        published = published_without_samples(device, environment)
        if published is None:
            raise
        return RunFrames(device, published.environment_id, published).table(op)
    return tidy_table(run.folder, run.derived, op)


def published_without_samples(device: str, environment: str | None) -> RunFolder | None:
    """The latest publication of a device that has tables and no samples, as a wheel carries it."""
    runs = [
        run
        for run in run_folders(paths.PUBLISHED)
        if run.device == device
        and environment in (None, run.environment_id)
        and not run.measured_ops()
        and (run.folder / "tables").is_dir()
    ]
    return max(runs, key=lambda run: version_key(run.environment_id), default=None)


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
    print(f"from: {folder}", file=sys.stderr)


ADVISE: Final = Command({"--shapes": many_linears, "": question("advise", MxNxK)})
BREAKEVEN: Final = Command(
    {"--run": map_of_run, "": question("breakeven", NxK, prepare=_without_weights)}
)
LLM: Final = Command(
    {
        "--run": table_of_run,
        "--by notebook": notebook,
        "--sweep": question("llm_sweep", flag="sweep"),
        "--curve": question("llm_curve", flag="curve", prepare=_one_batch),
        "": question("llm"),
    }
)
DEVICES: Final = Command({"": devices})
JUDGE: Final = Command({"": judge})
COMPARE: Final = Command({"": compare})
CLAIMS: Final = Command({"": claims})
TABLE: Final = Command({"": table}, either=("format", "json"))
EXPORT: Final = Command({"": export}, either=("format", "json"), is_needed=True)
