"""`plan`: the points of a study: a summary, or the file of one op."""

import argparse
import json
from pathlib import Path

from roofcal.cli import places
from roofcal.cli.places import Commands


def add(commands: Commands) -> None:
    """Declare `plan` and its arguments."""
    parser = commands.add_parser("plan", help="the points of a study: a summary, or one op's file")
    parser.add_argument(
        "--study", choices=("quick", "standard", "full"), help="size for the summary"
    )
    parser.add_argument("--op", help="one op")
    parser.add_argument("--environment", type=Path, help="environment.jsonl of the device")
    parser.add_argument("--slice", type=json.loads, help="what config says of the op, as JSON")
    parser.add_argument("--out", type=Path, help="write the points here")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the points of one op, or print how many there are of each."""
    from roofcal.core.jsonl import read_records, write_records
    from roofcal.core.records import Environment
    from roofcal.study.config import load_study
    from roofcal.study.discover import discover
    from roofcal.study.plan import plan_op

    if options.out:
        environment = read_records(options.environment, Environment)[0]
        write_records(options.out, plan_op(options.slice, environment))
        return
    study = load_study(Path("config"), {"study": options.study} if options.study else None)
    for environment in discover(places.DEVICES):
        print(f"{environment.device} ({environment.environment_id})")
        for op in [options.op] if options.op else study.ops:
            points = plan_op(study.op_slice(op, environment.backend), environment)
            groups = len({point.group_key for point in points})
            print(f"  {op:14s}{len(points):6d} points in {groups} groups")
