"""What people ask of models of time: all but `predict`, which has a file of its own.

Most modes of `advise`, `breakeven` and `llm` are functions of roofcal.api; those here read a file
or a run folder.
"""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from roofcal.ask.advice_text import advise_csv
from roofcal.ask.advise import Adviser
from roofcal.ask.breakeven_map import run_map
from roofcal.ask.devices import Devices, datasheet, device_sources
from roofcal.ask.llm.sweep import run_table
from roofcal.ask.measured import measured_by_key
from roofcal.ask.outside import hold_against
from roofcal.cli.commands import (
    Command,
    MxNxK,
    NxK,
    checked_folder,
    fill_axes,
    question,
    refuse,
    show,
    write_or_print,
)
from roofcal.core import paths
from roofcal.core.language_models import load_models
from roofcal.core.paths import RunFolder
from roofcal.models.registry import model_named
from roofcal.ops.linear.model import Passes, Weights, usual_weights


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
    sources, folder = device_sources(device, environment, model)
    measured = measured_by_key(RunFolder.at(folder) if sources.calibration else None)
    weights = weights or usual_weights(passes)
    adviser = Adviser(model_named(model), sources, passes, weights, measured)
    show(advise_csv(shapes, adviser), as_json=json, out=out)
    print(f"from: {folder}", file=sys.stderr)


def map_of_run(*, run: Path, calibration: Path | None = None, out: Path | None = None) -> None:
    """Write the map of a run folder.

    Args:
        run (FOLDER): the map of a run folder, as CSV
        out: with --run: write here
    """
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
    sources, folder = device_sources(device, environment, model)
    run = RunFolder.at(folder) if sources.calibration else None
    evidence = hold_against(table, model_named(model), sources, run, clock=clock)
    if not evidence.products:
        raise ValueError(f"{table}: no answer: {'; '.join(evidence.unanswered)}")
    if out:
        show(evidence.products_csv(), out=out)
    show(evidence, as_json=json)


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
