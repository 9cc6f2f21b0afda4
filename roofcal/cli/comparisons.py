"""`compare`: what moved between two runs. `claims`: whether published claims hold here."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofcal.cli.arguments import named_device, write_or_print
from roofcal.cli.commands import Command
from roofcal.core import paths
from roofcal.core.statistics import MATTERS

if TYPE_CHECKING:
    from roofcal.claims.ledgers import Entry
    from roofcal.core.paths import RunFolder
    from roofcal.report.data.claims import Verdict


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
    from roofcal.compare.as_text import as_text
    from roofcal.compare.comparison import OUTCOMES
    from roofcal.compare.comparison import compare as compared
    from roofcal.study.run_search import run_named

    earlier, later = (
        run_named(named_device(name), (paths.PUBLISHED, paths.RESULTS)) for name in (a, b)
    )
    comparison = compared(earlier, later, threshold, limit)
    text = dumps(comparison, indent=1) if json else as_text(comparison)
    write_or_print(text + "\n", out)
    return OUTCOMES[comparison["outcome"]]


def claims_of_all(*, ledger: str | None = None, json: bool = False) -> None:
    """Print the verdicts, device by device.

    Args:
        ledger: claims of config/claims/<ledger>.yaml alone
        json: for programs, with what was printed
    """
    from roofcal.study.run_search import runs_with_records
    from roofcal.study.runs import RunsError

    entries = _entries(ledger)
    devices = sorted({run.device for run in runs_with_records()})
    if not devices:
        raise RunsError("nothing is measured or published; `make study` measures this machine")
    _show(entries, devices, None, json=json)


def claims(
    *, device: str, environment: str | None = None, ledger: str | None = None, json: bool = False
) -> None:
    """Print the verdicts of one device.

    Args:
        device: e.g. nvidia-h200; default: all with records
        environment: with --device; default: the latest calibrated one
    """
    _show(_entries(ledger), [device], environment, json=json)


def _show(
    entries: "list[Entry]", devices: list[str], environment: str | None, *, json: bool
) -> None:
    from roofcal.report.data.claims import as_document, as_text
    from roofcal.study.run_search import find_run

    runs = {name: find_run(name, environment) for name in devices}
    verdicts = [(name, run.environment_id, _verdicts(run, entries)) for name, run in runs.items()]
    if json:
        print(dumps([as_document(*of_device) for of_device in verdicts], indent=1))
    else:
        print("\n\n".join(as_text(*of_device) for of_device in verdicts))


def _entries(ledger: str | None) -> "list[Entry]":
    """The claims of one ledger, of all without its name."""
    from roofcal.claims.ledgers import load_claims
    from roofcal.core.names import did_you_mean_or_all

    entries = load_claims(paths.CLAIMS)
    ledgers = list(dict.fromkeys(entry.ledger.ledger for entry in entries))
    if not ledgers:
        raise ValueError(f"{paths.CLAIMS}: holds no claims")
    if ledger not in (None, *ledgers):
        raise ValueError(f"unknown ledger '{ledger}'{did_you_mean_or_all(str(ledger), ledgers)}")
    return [entry for entry in entries if ledger in (None, entry.ledger.ledger)]


def _verdicts(run: "RunFolder", entries: "list[Entry]") -> "list[Verdict]":
    from roofcal.ask.devices import datasheet
    from roofcal.points.run import load_run
    from roofcal.report.data.claims import evidence_of_run, judge

    loaded = load_run(run.folder, run.derived)
    return judge(entries, evidence_of_run(loaded, datasheet(loaded.environment.device)))


COMPARE: Final = Command({"": compare})
CLAIMS: Final = Command({"--device": claims, "": claims_of_all})
