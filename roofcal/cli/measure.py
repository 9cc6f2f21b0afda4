"""`measure`: measure a plan; what Snakemake calls."""

import argparse
import json
import signal
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `measure` and its arguments."""
    parser = commands.add_parser("measure", help="measure a plan; goes on where it was interrupted")
    for name in ("plan", "environment", "journal", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--timing", type=json.loads, required=True, help="timing protocol, JSON")
    parser.add_argument(
        "--retry",
        action="append",
        default=[],
        choices=("unsupported", "incorrect", "out_of_memory", "timeout", "failed"),
        help="measure points of this status again (may be given several times)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure the points of a plan file."""
    from roofcal.core.jsonl import read_records
    from roofcal.core.records import Environment
    from roofcal.measure.session import Job, measure
    from roofcal.study.discover import check_environment

    check_environment(read_records(options.environment, Environment)[0], places.DEVICES)
    # A time limit (timeout, SLURM, Snakemake) ends a session like Ctrl-C: its end is recorded.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = Job(
        plan=options.plan,
        environment=options.environment,
        timing=options.timing,
        journal=options.journal,
        out=options.out,
        retry=tuple(options.retry),
    )
    measure(job)
