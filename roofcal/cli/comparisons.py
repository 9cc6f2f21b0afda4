"""`compare`: what moved between two runs. `claims`: whether published claims hold here."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import Commands, check_mode, fraction, named_device, write_or_print
from roofcal.core import paths

if TYPE_CHECKING:
    from roofcal.claims.ledgers import Entry
    from roofcal.core.paths import RunFolder
    from roofcal.report.data.claims import Verdict


def add_compare(commands: Commands) -> None:
    """Declare `compare` and its arguments."""
    parser = commands.add_parser(
        "compare",
        help="what moved from run A to run B: 1 where it became slower or broke",
    )
    about = "run folder, <device>/<environment_id>, or the start of one; DIR=DERIVED as in `report`"
    parser.add_argument("a", metavar="A", help=about)
    parser.add_argument("b", metavar="B", help="the later one")
    parser.add_argument(
        "--threshold", type=fraction, default=0.02, help="changes below do not matter (0.02)"
    )
    parser.add_argument(
        "--limit", type=fraction, help="a slowdown beyond it is a regression (default: threshold)"
    )
    parser.add_argument("--json", action="store_true", help="for programs, every point")
    parser.add_argument("--out", type=Path, help="write here, default: the terminal")
    parser.set_defaults(run=_compare)


def _compare(options: argparse.Namespace) -> int:
    """Print the comparison; the exit code is that of its outcome, see OUTCOMES."""
    from roofcal.compare.as_text import as_text
    from roofcal.compare.comparison import OUTCOMES, compare
    from roofcal.study.run_search import run_named

    names = (named_device(options.a), named_device(options.b))
    a, b = (run_named(name, (paths.PUBLISHED, paths.RESULTS)) for name in names)
    comparison = compare(a, b, options.threshold, options.limit)
    text = json.dumps(comparison, indent=1) if options.json else as_text(comparison)
    write_or_print(text + "\n", options.out)
    return OUTCOMES[comparison["outcome"]]


def add_claims(commands: Commands) -> None:
    """Declare `claims` and its arguments."""
    parser = commands.add_parser("claims", help="whether published claims hold on these records")
    parser.add_argument("--device", help="e.g. nvidia-h200; default: all with records")
    parser.add_argument("--environment", help="with --device; default: the latest calibrated one")
    parser.add_argument("--ledger", help="claims of config/claims/<ledger>.yaml alone")
    parser.add_argument("--json", action="store_true", help="for programs, with what was printed")
    parser.set_defaults(run=_claims)


def _claims(options: argparse.Namespace) -> None:
    """Print the verdicts, device by device."""
    from roofcal.report.data.claims import as_document, as_text
    from roofcal.study.run_search import find_run

    of_all = ("ledger", "json")
    check_mode(options, {"--device": ("device", "environment", *of_all), "": of_all})
    entries = _entries(options.ledger)
    runs = {name: find_run(name, options.environment) for name in _devices(options.device)}
    verdicts = [(name, run.environment_id, _verdicts(run, entries)) for name, run in runs.items()]
    if options.json:
        print(json.dumps([as_document(*of_device) for of_device in verdicts], indent=1))
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


def _devices(device: str | None) -> list[str]:
    """The device, or all with records where none is given."""
    from roofcal.study.run_search import runs_with_records
    from roofcal.study.runs import RunsError

    if device:
        return [device]
    devices = sorted({run.device for run in runs_with_records()})
    if not devices:
        raise RunsError("nothing is measured or published; `make study` measures this machine")
    return devices


def _verdicts(run: "RunFolder", entries: "list[Entry]") -> "list[Verdict]":
    from roofcal.ask.sources import datasheet
    from roofcal.points.run import load_run
    from roofcal.report.data.claims import judge
    from roofcal.report.data.evidence import evidence_of_run

    loaded = load_run(run.folder, run.derived)
    return judge(entries, evidence_of_run(loaded, datasheet(loaded.environment.device)))
