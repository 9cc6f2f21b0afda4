"""`claims`: do published claims hold on the hardware at hand? Verdicts from records alone."""

import argparse
import json
from typing import TYPE_CHECKING, TypeAlias

from roofcal.cli import places
from roofcal.cli.places import Commands

if TYPE_CHECKING:
    from roofcal.claims.load import Entry
    from roofcal.report.data.claims import Verdict
    from roofcal.study.runs import Run

Judged: TypeAlias = "tuple[str, str, list[Verdict]]"  # device, environment, verdicts


def add(commands: Commands) -> None:
    """Declare `claims` and its arguments."""
    parser = commands.add_parser("claims", help="whether published claims hold on these records")
    parser.add_argument("--device", help="e.g. nvidia-h200; default: all with records")
    parser.add_argument("--environment", help="with --device; default: the latest calibrated one")
    parser.add_argument("--ledger", help="claims of config/claims/<ledger>.yaml alone")
    parser.add_argument("--json", action="store_true", help="for programs, with what was printed")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the verdicts, device by device."""
    from roofcal.report.data.verdicts import as_document, as_text
    from roofcal.study.runs import find_run

    if options.environment and not options.device:
        raise ValueError("--environment needs --device")
    entries = _entries(options.ledger)
    judged: list[Judged] = []
    for name in _devices(options.device):
        found = find_run(name, options.environment)
        judged.append((name, found.environment_id, _judged(found, entries)))
    if options.json:
        print(json.dumps([as_document(*one) for one in judged], indent=1))
    else:
        print("\n\n".join(as_text(*one) for one in judged))


def _entries(ledger: str | None) -> "list[Entry]":
    from roofcal.claims.load import load_claims
    from roofcal.core.names import did_you_mean_or_all

    every = load_claims(places.CLAIMS)
    known = list(dict.fromkeys(entry.ledger.ledger for entry in every))
    if not known:
        raise ValueError(f"{places.CLAIMS}: holds no claims")
    if ledger not in (None, *known):
        raise ValueError(f"unknown ledger '{ledger}'{did_you_mean_or_all(str(ledger), known)}")
    return [entry for entry in every if ledger in (None, entry.ledger.ledger)]


def _devices(device: str | None) -> list[str]:
    from roofcal.study.runs import RunsError, runs_with_records

    if device:
        return [device]
    found = sorted({run.folder.parent.name for run in runs_with_records()})
    if not found:
        raise RunsError("nothing is measured or published; `make study` measures this machine")
    return found


def _judged(run: "Run", entries: "list[Entry]") -> "list[Verdict]":
    from roofcal.report.data.claims import judge
    from roofcal.report.data.loading import load_run
    from roofcal.report.data.own_numbers import known_of

    loaded = load_run(run.folder, run.derived)
    return judge(entries, known_of(loaded, places.datasheet(loaded.environment.device)))
