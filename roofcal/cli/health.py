"""`health`: is this card slower than its kind? `fleet`: which cards of a cluster are, and why."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from roofcal.cli.arguments import Commands, check_mode, fraction, write_or_print
from roofcal.core import paths
from roofcal.core.names import printable

if TYPE_CHECKING:
    from roofcal.core.records import Environment
    from roofcal.health.comparison import CardVerdict

UNHEALTHY = 1  # the exit code where a card is slower or fails a point, or `fleet` has none like it
_OTHER_ENVIRONMENT = ", measured in another environment, which may make a difference by itself"
FEWEST_CARDS = 5  # before the publication is left: the limits of three or four cards are wide


def add_health(commands: Commands) -> None:
    """Declare `health` and its arguments."""
    parser = commands.add_parser(
        "health",
        help="whether this card is slower than its kind or fails: 0, 1, or 2 for unknown",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=paths.RESULTS / "fleet",
        metavar="FOLDER",
        help="records go to <device>/<environment>/<node>/<card> below it (results/fleet)",
    )
    parser.add_argument(
        "--threshold",
        type=fraction,
        default=0.05,
        help="what counts as slower than the publication, one card of its kind (0.05)",
    )
    parser.add_argument(
        "--every-card",
        action="store_true",
        help="measure each card of this node in turn and judge none: `fleet` compares them",
    )
    parser.add_argument(
        "--node", help="with --every-card: what this node has to be called, or it is refused"
    )
    parser.add_argument(
        "--environment",
        type=Path,
        metavar="FILE",
        help="with --every-card: the environment.jsonl that this node has to have",
    )
    parser.add_argument("--json", action="store_true", help="for programs, every op")
    parser.set_defaults(run=_health)


def _health(options: argparse.Namespace) -> int:
    """Measure the panel; compare it with a fleet of five cards or more, else the publication.

    Three or four cards are a fleet where nothing is published. Raises HealthError, exit code 2,
    where a visible card does not answer, because the answer would be that of another one.
    """
    from roofcal.core.machine.nvml import survey_gpus
    from roofcal.health.comparison import FEWEST, compare_cards, compare_with_publication
    from roofcal.health.panel import measure_card, measure_node, read_panel
    from roofcal.health.readings import HealthError, read_card, read_fleet
    from roofcal.study.config import load_study
    from roofcal.study.discover import discover, left_out
    from roofcal.study.run_search import find_publication
    from roofcal.study.runs import RunsError

    fleet = ("every_card", "out", "node", "environment")
    check_mode(options, {"--every-card": fleet, "": ("out", "threshold", "json")})
    for sentence in left_out():
        print(f"note: {printable(sentence)}", file=sys.stderr)
    if options.every_card:
        environment = _environment_of_fleet(options)
    elif silent := survey_gpus().silent:
        raise HealthError(f"{'; '.join(silent)}; CUDA_VISIBLE_DEVICES picks another card")
    else:
        environment = discover(paths.DEVICES)[0]
    panel = read_panel(paths.CONFIG / "health.yaml", environment.backend)
    # One visit, whatever the size of the study: a card has two minutes.
    timing = load_study(paths.CONFIG, {"study": "quick"}).timing(environment.backend)
    if options.every_card:
        for folder in measure_node(panel, environment, timing, options.out):
            print(folder)
        return 0
    folder = measure_card(panel, environment, timing, options.out)
    card = f"{folder.parent.name}/{folder.name}"
    cards = len(list(folder.parents[1].glob("*/*/environment.jsonl")))
    run = None
    if cards < FEWEST_CARDS:
        try:
            # Not a run of this machine: a card that is compared with itself is healthy.
            run = find_publication(environment.device, environment.environment_id)
        except RunsError as error:
            if cards < FEWEST:
                raise HealthError(
                    f"{folder}: measured, and there is nothing to compare it with but fewer than "
                    f"two other cards: {error}"
                ) from None
    if run is None:
        verdicts = compare_cards(read_fleet(folder.parents[1]))
        own = [verdict for verdict in verdicts if verdict.card == card]
        if not any(verdict.deviations or verdict.failures for verdict in own):
            raise HealthError(
                f"{folder}: measured, and no point of it is on {FEWEST - 1} other cards of its "
                "fleet; measure them again with one config/health.yaml"
            )
    else:
        other = "" if run.environment_id == environment.environment_id else _OTHER_ENVIRONMENT
        print(f"compared with the publication {run.name}{other}", file=sys.stderr)
        published = read_card(run.folder, run.name).readings
        own = [compare_with_publication(read_card(folder, card), published, options.threshold)]
    return _answer(own, as_json=options.json, out=None)


def _environment_of_fleet(options: argparse.Namespace) -> "Environment":
    """The environment to measure in; raises if this is another node, or has another environment."""
    from roofcal.core.jsonl import read_single_record
    from roofcal.core.records import Environment
    from roofcal.health.panel import node_name
    from roofcal.health.readings import HealthError
    from roofcal.study.discover import check_environment, discover

    if options.node and options.node != node_name():
        raise HealthError(
            f"this is {node_name()}, not {options.node}: nodes of a fleet are reached through "
            "SLURM, `snakemake fleet --workflow-profile profiles/slurm`"
        )
    if options.environment is None:
        return discover(paths.DEVICES)[0]
    environment = read_single_record(options.environment, Environment)
    check_environment(environment, paths.DEVICES)
    return environment


def add_fleet(commands: Commands) -> None:
    """Declare `fleet` and its arguments."""
    parser = commands.add_parser("fleet", help="which cards of a cluster are slow, worst first")
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="results/fleet/<device>/<environment>, with the records of `health` of three cards",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--out", type=Path, help="write here, default: the terminal")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write it as a page too")
    parser.set_defaults(run=_fleet)


def _fleet(options: argparse.Namespace) -> int:
    """Compare all cards of a folder; 1 where one is not healthy."""
    from roofcal.core.files import check_folder
    from roofcal.health.comparison import compare_cards
    from roofcal.health.readings import read_fleet

    check_folder(options.folder)
    cards = read_fleet(options.folder)
    verdicts = compare_cards(cards)
    if options.page:
        from roofcal.health.page import write_page

        write_page(options.page, options.folder, cards, verdicts)
    return _answer(verdicts, as_json=options.json, out=options.out)


def _answer(verdicts: "Sequence[CardVerdict]", *, as_json: bool, out: Path | None) -> int:
    from roofcal.health.as_text import as_text

    if as_json:
        text = json.dumps([asdict(verdict) for verdict in verdicts], indent=1) + "\n"
    else:
        text = as_text(verdicts)
    write_or_print(text, out)
    return 0 if all(verdict.is_healthy for verdict in verdicts) else UNHEALTHY
