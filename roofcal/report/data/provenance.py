"""Where the numbers come from and how to get them again: environment, sessions, commands."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import pandas as pd

from roofcal.core.environments import origin_environment
from roofcal.core.records import Environment, Session
from roofcal.core.units import format_bytes
from roofcal.ops import BY_NAME
from roofcal.report.data.analysis import Analysis
from roofcal.report.data.loading import Run
from roofcal.report.kit.numbers import scaled

_LABELS: Final = {
    "device_name": "device",
    "compute_units": "compute units",
    "memory_bytes": "memory",
    "memory_clock_hz": "memory clock",
    "memory_bus_bits": "memory bus",
    "last_level_cache_bytes": "last-level cache",
    "power_limit_w": "power limit",
    "ecc": "ECC",
    "mig": "MIG",
    "threads": "threads",
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "torch",
    "triton": "Triton",
    "cublas": "cuBLAS",
    "nccl": "NCCL",
    "python": "Python",
}
_UNITS: Final = {"memory_clock_hz": "Hz", "power_limit_w": "W"}


def environment_facts(environment: Environment) -> list[tuple[str, str]]:
    """(label, value) of all that is known of an environment."""
    values = asdict(environment)
    known = [(key, label) for key, label in _LABELS.items() if values[key] is not None]
    return [(label, _shown(key, values[key])) for key, label in known]


def _shown(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if key.endswith("_bytes"):
        return format_bytes(value)
    if key in _UNITS:
        return scaled(value, _UNITS[key], 4)
    return f"{value} bit" if key == "memory_bus_bits" else str(value)


def sessions_table(sessions: Sequence[Session]) -> pd.DataFrame:
    """One row per session: when, where, of which code, by which command."""
    rows = [
        {
            "op": session.op,
            "started_utc": _utc(session.started_utc),
            "finished_utc": _utc(session.finished_utc),
            "host": session.host,
            "commit": session.git_commit[:12] if session.git_commit else None,
            "dirty": {True: "yes", False: "no", None: "unknown"}[session.git_dirty],
            "code": session.code_hash[:12],
            "session_id": session.session_id,
            "device_uuid": session.device_uuid,
            "command": session.command,
            "timing": json.dumps(dict(session.timing), sort_keys=True),
        }
        for session in sessions
    ]
    return pd.DataFrame(rows)


def _utc(time: str | None) -> str | None:
    """'2026-11-21T04:00:06+00:00' -> '2026-11-21 04:00:06'."""
    return time.replace("T", " ").removesuffix("+00:00") if time else None


def home(run: Run) -> str:
    """The folder of a run in any checkout: what the commands in the page name."""
    root = "reports/published" if run.origin == "published" else "results"
    return f"{root}/{run.environment.device}/{run.environment.environment_id}"


def derived_home(run: Run) -> str:
    """Where calibration and predictions of a run go in any checkout."""
    if run.derived == run.folder:
        return home(run)
    return f"results/replay/{run.environment.device}/{run.environment.environment_id}"


def calibration_home(run: Run) -> str:
    """The calibration of a run in any checkout."""
    return f"{derived_home(run)}/calibration.jsonl"


def table_command(run: Run, op: str) -> str:
    """The command that prints the tidy table of an op."""
    environment = run.environment
    return (
        f"python -m roofcal table --device {environment.device} "
        f"--environment {environment.environment_id} --op {op}"
    )


def map_command(run: Run) -> str:
    """The command that prints the break-even map of a run."""
    return f"python -m roofcal breakeven --run {home(run)} --calibration {calibration_home(run)}"


def learning_command(run: Run) -> str:
    """The command that prints the learning curves of a run."""
    return f"python -m roofcal learning --run {home(run)}"


def llm_command(run: Run) -> str:
    """The command that prints the estimates of language models of a run."""
    return f"python -m roofcal llm --run {home(run)} --calibration {calibration_home(run)}"


def commands(a: Analysis) -> list[str]:
    """What a person types to get the numbers of a run again, in order."""
    place, derived = home(a.run), derived_home(a.run)
    studies = [op for op in a.run.ops if BY_NAME[op].role == "study"]
    commits = {s.git_commit for s in a.every_session if s.git_commit}
    lines = [f"git checkout {commit}" for commit in sorted(commits)] if len(commits) == 1 else []
    if a.run.origin == "measured":
        lines.append("make study  # measures what is missing, then the rest of this list")
    fitted, also = calibration_home(a.run), _also(a)
    lines.append(f"python -m roofcal calibrate --run {place} --out {fitted}")
    lines += [
        f"python -m roofcal predict --run {place} --calibration {fitted} "
        f"--op {op}{also} --out {derived}/predictions/{op}.jsonl"
        for op in studies
    ]
    if len(a.learning):
        lines.append(f"{learning_command(a.run)} --out {derived}/learning.csv")
    if len(a.breakeven):
        lines.append(f"{map_command(a.run)} --out {derived}/breakeven.csv")
    if len(a.llm):
        lines.append(f"{llm_command(a.run)} --out {derived}/llm.csv")
    pair = place if derived == place else f"{place}={derived}"
    lines.append(f"python -m roofcal report --run {pair} --out results/report/report.html")
    return lines


def _also(a: Analysis) -> str:
    """The argument of `predict` that gives calibrations of other environments, '' without any.

    One that is not among the runs of the report was published beside this run.
    """
    names = sorted({name for model in a.labels if (name := origin_environment(model))})
    published = f"reports/published/{a.device}"
    files = [a.others.get(name, f"{published}/{name}/calibration.jsonl") for name in names]
    return f" --also {' '.join(files)}" if files else ""
