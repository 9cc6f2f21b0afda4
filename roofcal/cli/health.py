"""What measures this card at once: `health`, which judges it, and `time`, products of any size.

`fleet` says which cards of a cluster are slow, and why.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofcal.cli.commands import Command, MxNxK, remark_on_stderr, show
from roofcal.core import paths
from roofcal.core.csv_files import read_shapes
from roofcal.core.files import check_folder
from roofcal.core.jsonl import read_single_record
from roofcal.core.names import printable
from roofcal.core.records import Environment
from roofcal.core.statistics import BETWEEN_CARDS

if TYPE_CHECKING:
    from roofcal.health.comparison import CardVerdict
    from roofcal.study.schema import Backend

UNHEALTHY = 1  # the exit code where a card is slower or fails a point, or `fleet` has none like it


def every_card(
    *,
    every_card: bool,  # noqa: ARG001 (it chose this mode)
    out: Path = paths.RESULTS / "fleet",
    node: str | None = None,
    environment: Path | None = None,
) -> None:
    """Measure each card of this node in turn and judge none.

    Args:
        every_card: measure each card of this node in turn and judge none: `fleet` compares them
        out (FOLDER): records go to <device>/<environment>/<node>/<card> below it (results/fleet)
        node: with --every-card: the name that this node must have
        environment (FILE): with --every-card: the environment.jsonl that this node has to have
    """
    from roofcal.health.comparison import HealthError
    from roofcal.health.panel import measure_node, node_name
    from roofcal.study.discover import check_environment, discover

    _say_what_is_left_out()
    if node and node != node_name():
        raise HealthError(
            f"this is {node_name()}, not {node}: nodes of a fleet are reached through "
            "SLURM, `snakemake fleet --workflow-profile profiles/slurm`"
        )
    if environment is None:
        expected = discover(paths.DEVICES)[0]
    else:
        expected = read_single_record(environment, Environment)
        check_environment(expected, paths.DEVICES)
    panel, timing = _protocol(expected.backend)
    for folder in measure_node(panel, expected, timing, out):
        print(folder)


def health(
    *, out: Path = paths.RESULTS / "fleet", threshold: float = BETWEEN_CARDS, json: bool = False
) -> int:
    """Measure the panel; compare it with a fleet of five cards or more, else the publication.

    Three or four cards are a fleet where nothing is published. Raises HealthError, exit code 2,
    where a visible card does not answer, because the answer would be that of another one.

    Args:
        threshold: what counts as slower than the publication, one card of its kind (0.05)
        json: for programs, every op
    """
    from roofcal.core.machine.nvml import survey_gpus
    from roofcal.health.comparison import HealthError, judge_card
    from roofcal.health.panel import measure_card
    from roofcal.study.discover import discover

    _say_what_is_left_out()
    if silent := survey_gpus().silent:
        raise HealthError(f"{'; '.join(silent)}; CUDA_VISIBLE_DEVICES picks another card")
    environment = discover(paths.DEVICES)[0]
    panel, timing = _protocol(environment.backend)
    folder = measure_card(panel, environment, timing, out)
    verdicts, remark = judge_card(folder, environment, threshold)
    if remark:
        remark_on_stderr(remark)
    return _show(verdicts, as_json=json)


def _say_what_is_left_out() -> None:
    from roofcal.study.discover import left_out

    for sentence in left_out():
        remark_on_stderr(f"note: {printable(sentence)}")


def _protocol(backend: "Backend") -> tuple[Any, Any]:
    """The panel and its timing: one visit, whatever the study's size; a card has two minutes."""
    from roofcal.health.panel import read_panel
    from roofcal.study.config import load_study

    panel = read_panel(paths.CONFIG / "health.yaml", backend)
    return panel, load_study(paths.CONFIG, {"study": "quick"}).timing(backend)


def fleet(
    folder: Path, /, *, json: bool = False, out: Path | None = None, page: Path | None = None
) -> int:
    """Compare all cards of a folder; 1 where one is not healthy.

    Args:
        folder (FOLDER): results/fleet/<device>/<environment>, with the records of `health` of three
            cards
        json: for programs
        page (FILE): write it as a page too
    """
    from roofcal.health.comparison import compare_cards, read_fleet

    check_folder(folder)
    cards = read_fleet(folder)
    verdicts = compare_cards(cards)
    if page:
        from roofcal.health.page import write_page

        write_page(page, folder, cards, verdicts)
    return _show(verdicts, as_json=json, out=out)


def _show(verdicts: "Sequence[CardVerdict]", *, as_json: bool, out: Path | None = None) -> int:
    from roofcal.health.page import JudgedCards

    show(JudgedCards(verdicts), as_json=as_json, out=out)
    return 0 if all(verdict.is_healthy for verdict in verdicts) else UNHEALTHY


def time(
    *sizes: MxNxK, csv: Path | None = None, recipes: Collection[str] = (), json: bool = False
) -> None:
    """Measure products and print their times beside their predictions.

    Args:
        csv (FILE): columns m,n,k: many shapes
        recipes (NAMES): these recipes alone, with commas between
    """
    from roofcal.api import time_products

    # 4096 28672 8192 is one shape, as of `predict`
    is_one = all(len(word) == 1 for word in sizes)
    shapes = [tuple(size for word in sizes for size in word)] if is_one and sizes else list(sizes)
    if csv:
        shapes += [tuple(shape.values()) for _, shape in read_shapes(csv, "mnk")]
    if not shapes:
        raise ValueError("time needs sizes, as 4096x28672x8192, or --csv FILE")
    _say_what_is_left_out()
    show(time_products(shapes, recipes), as_json=json)


HEALTH: Final = Command({"--every-card": every_card, "": health})
