"""The source of the numbers and how to reproduce them: environment, folders, commands."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_environment
from roofcal.core.names import is_commit
from roofcal.core.records import Environment
from roofcal.core.units import format_bytes
from roofcal.ops import BY_NAME
from roofcal.ops.constants import predicted_with
from roofcal.points.run import Run
from roofcal.report.data.analysis import Analysis
from roofcal.report.kit.numbers import scaled

# Field of an environment -> its label, and how its value is shown.
_FACTS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "device_name": ("device", str),
    "compute_units": ("compute units", str),
    "memory_bytes": ("memory", format_bytes),
    "memory_clock_hz": ("memory clock", lambda value: scaled(value, "Hz", 4)),
    "memory_bus_bits": ("memory bus", "{} bit".format),
    "last_level_cache_bytes": ("last-level cache", format_bytes),
    "power_limit_w": ("power limit", lambda value: scaled(value, "W", 4)),
    "ecc": ("ECC", lambda is_on: "on" if is_on else "off"),
    "mig": ("MIG", lambda is_on: "on" if is_on else "off"),
    "threads": ("threads", str),
    "cpu_quota_cores": ("CPU quota in cores", str),
    "driver": ("driver", str),
    "cuda": ("CUDA", str),
    "torch": ("torch", str),
    "triton": ("Triton", str),
    "cublas": ("cuBLAS", str),
    "nccl": ("NCCL", str),
    "python": ("Python", str),
}
# File that a stage derives beside the records -> the arguments that derive it again, and the ops
# whose constants all its rows follow from.
_DERIVED: Final = {
    "breakeven.csv": ("breakeven --run {run} --calibration {calibration}", ("gemm", "cast")),
    "llm.csv": ("llm --run {run} --calibration {calibration}", ("gemm", "cast", "mixed_gemm")),
}


def environment_facts(environment: Environment) -> list[tuple[str, str]]:
    """(label, value) of every field of an environment that has a value, and its id."""
    facts = [
        (label, show(value))
        for key, (label, show) in _FACTS.items()
        if (value := getattr(environment, key)) is not None
    ]
    return [*facts, ("environment", environment.environment_id)]


def run_path(run: Run) -> str:
    """The folder of a run in any checkout: what the commands in the page name."""
    root = "reports/published" if run.origin == "published" else "results"
    return f"{root}/{run.environment.device}/{run.environment.environment_id}"


def derived_path(run: Run) -> str:
    """Where calibration and predictions of a run go in any checkout."""
    if run.derived == run.folder:
        return run_path(run)
    return f"results/replay/{run.environment.device}/{run.environment.environment_id}"


def calibration_path(run: Run) -> str:
    """The calibration of a run in any checkout."""
    return f"{derived_path(run)}/calibration.jsonl"


def table_command(run: Run, op: str) -> str:
    """The command that prints the tidy table of an op."""
    environment = run.environment
    return (
        f"roofcal table --device {environment.device} "
        f"--environment {environment.environment_id} --op {op}"
    )


def commands(analysis: Analysis) -> list[str]:
    """What a person types to get the numbers of a run again, in order."""
    run = analysis.run
    place, derived = run_path(run), derived_path(run)
    commits = {s.git_commit for s in analysis.all_sessions if s.git_commit}
    is_one = len(commits) == 1 and all(map(is_commit, commits))
    lines = [f"git checkout {commit}" for commit in commits] if is_one else []
    if run.origin == "measured":
        lines.append("make study  # measures what is missing, then the rest of this list")
    if run.origin == "published" and derived == place:  # its files are not to be written over
        return [*lines, f"roofcal verify {place}  # derives all again and compares"]
    lines += outdated_commands(analysis)
    pair = place if derived == place else f"{place}={derived}"
    lines.append(f"roofcal report --run {pair} --out results/report/report.html")
    return lines


def commands_anew(run: Run, place: str, derived: str, also: Sequence[str]) -> list[str]:
    """What a person types to make all that follows from the constants of a run again, in order.

    place, derived: its folder and that of its calibration and predictions, as the commands name
    them; also: calibrations of other environments that predict it, too.
    """
    if run.origin == "published" and derived == place:
        return [f"roofcal publish --again {place}"]
    calibration = f"{derived}/calibration.jsonl"
    others = f" --also {' '.join(also)}" if also else ""
    return [
        f"roofcal calibrate --run {place} --out {calibration}",
        *(
            f"roofcal predict --run {place} --calibration {calibration} "
            f"--op {op}{others} --out {derived}/predictions/{op}.jsonl"
            for op in run.ops
            if BY_NAME[op].role == "study"
        ),
        *(
            f"roofcal {arguments.format(run=place, calibration=calibration)} --out {derived}/{file}"
            for file, (arguments, _) in _DERIVED.items()
            if (run.derived / file).is_file()
        ),
    ]


def is_outdated(run: Run, name: str) -> bool:
    """Whether all of a derived file depends on constants of an outdated op."""
    return name in _DERIVED and not set(_DERIVED[name][1]).isdisjoint(run.outdated)


def outdated_text(run: Run) -> str:
    """Sentence: what the report of a run with outdated ops leaves out, and that commands follow."""
    dependent = [op for op in run.ops if op in predicted_with(run.outdated)]
    parts = ["errors on probes"]
    parts += [f"calibrated predictions of {', '.join(dependent)}"] if dependent else []
    parts += [name for name in _DERIVED if is_outdated(run, name)]
    return (
        f"the constants of {', '.join(run.outdated)} are of another equation than this roofcal has."
        f" They are left out, and so is what follows from them: {'; '.join(parts)}. To make all of "
        "it again"
    )


def outdated_commands(analysis: Analysis) -> list[str]:
    """`commands_anew` with folders as in any checkout.

    A calibration of another environment that is not among the runs of the report was published
    beside this run.
    """
    run = analysis.run  # predictions of outdated ops are left out of the tables
    shown = sorted({env for model in analysis.labels if (env := origin_environment(model))})
    also = [
        analysis.calibrations.get(
            env, f"reports/published/{analysis.device}/{env}/calibration.jsonl"
        )
        for env in (run.origins() if run.outdated else shown)
    ]
    return commands_anew(run, run_path(run), derived_path(run), also)


# --- files that a stage derived beside the records ----------------------------------------------


class ReportError(ValueError):
    """A run that cannot be reported; the message names the file and the way out."""


def derived_table(
    run: Run, name: str, labels: Sequence[str], numbers: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """(rows of a derived file, the command that prints them); raises as read_derived.

    Without the file there are none, and none of one that follows from outdated ops.
    """
    rows = read_derived(run.derived / name, labels, numbers)
    arguments = _DERIVED[name][0].format(run=run_path(run), calibration=calibration_path(run))
    return rows.iloc[:0] if is_outdated(run, name) else rows, f"roofcal {arguments}"


def read_derived(path: Path, labels: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """The rows of a CSV file; empty without the file.

    labels: columns that it must have, filled in every row; numbers: further ones, of numbers alone.
    Raises ReportError for a file that is otherwise.
    """
    if not path.is_file():
        return pd.DataFrame(columns=[*labels, *numbers])
    way_out = "delete it and run `make study` again"
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: is no CSV file ({error}); {way_out}") from None
    missing = [name for name in (*labels, *numbers) if name not in table.columns]
    if missing:
        raise ReportError(f"{path}: column {', '.join(missing)} is missing; {way_out}")
    for name in labels:
        if table[name].isna().any():
            line = 2 + int(table[name].isna().argmax())
            raise ReportError(f"{path}:{line}: column {name} is empty; {way_out}")
    for name in numbers:
        if len(table) and not pd.api.types.is_numeric_dtype(table[name]):
            raise ReportError(f"{path}: column {name} holds something else than numbers; {way_out}")
    return table
