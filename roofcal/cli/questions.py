"""What people ask of models of time: `predict`, `advise`, `breakeven`, `llm`, `devices`, `judge`.

Most modes are functions of roofcal.api; those here read a file or a run folder, or print torchao's
formulas in M, K and N.
"""

import runpy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from roofcal.ask.advice import advise_csv
from roofcal.ask.advise import Adviser
from roofcal.ask.answers import Answer
from roofcal.ask.breakeven import run_map
from roofcal.ask.devices import Devices, datasheet, device_sources
from roofcal.ask.llm.sweep import run_table
from roofcal.ask.measured import measured_points
from roofcal.ask.outside import hold_against
from roofcal.ask.points import RECIPE_ALIASES, predict_csv
from roofcal.cli.commands import (
    Command,
    MxNxK,
    NxK,
    checked_folder,
    fill_axes,
    option_of,
    question,
    refuse,
    remark_on_stderr,
    require,
    show,
    write_or_print,
)
from roofcal.core import paths
from roofcal.core.jsonl import write_records
from roofcal.core.language_models import load_models
from roofcal.core.paths import RunFolder
from roofcal.models.registry import model_named, predict_run
from roofcal.ops import BY_NAME, STUDY_OPS
from roofcal.ops.linear.model import Passes, Weights, usual_weights

_DEFAULT_RECIPE: Final = "bf16"
_AXES: Final = tuple(dict.fromkeys(axis for op in STUDY_OPS for axis in op.axes))


def _complete(asked: dict[str, Any], words: Sequence[tuple[int, ...]]) -> None:
    """Gives the axes of the op their sizes; raises ValueError for those of others."""
    require(asked, "predict", ["device"])
    name = asked.get("op", "gemm")
    if name not in BY_NAME:
        return  # the answer names those there are
    op = BY_NAME[name]
    if "recipe" not in asked and _DEFAULT_RECIPE not in op.recipes:
        raise ValueError(f"op {name} needs --recipe, one of: {', '.join(op.recipes)}")
    foreign = [option_of(axis) for axis in asked if axis in _AXES and axis not in op.axes]
    refuse(foreign, f"--op {name}")
    fill_axes(asked, op.axes, words)
    if any(axis not in asked for axis in op.axes):  # a mistake of the device comes first
        sources = {"environment": None, "by": "calibrated"} | asked
        device_sources(asked["device"], sources["environment"], sources["by"])
    require(asked, f"op {name}", op.axes)


def points(
    *,
    points: Path,
    device: str,
    environment: str | None = None,
    op: str = "gemm",
    provider: str = "",
    world_size: int = 1,
    by: str = "calibrated",
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Answer a CSV of points.

    Args:
        points (CSV): columns recipe and the axes of --op: m,n,k
        out: with --run or --points: write here
    """
    sources, folder = device_sources(device, environment, by)
    answer = predict_csv(points, by, sources, provider, op=op, world_size=world_size)
    show(answer, as_json=json, out=out)
    remark_on_stderr(f"from: {folder}")


def plan_of_run(
    *,
    run: Path,
    op: str = "gemm",
    calibration: Path | None = None,
    also: tuple[Path, ...] = (),
    out: Path | None = None,
) -> None:
    """Predict the plan of a run folder.

    Args:
        run (FOLDER): predict the plan of a run folder
        also (FILE): with --run: calibrations of the same device in other environments
    """
    folder = RunFolder.at(checked_folder(run))
    fitted = calibration or folder.calibration_file
    predictions = predict_run(run, fitted, op, datasheet(folder.device), also=also)
    write_records(out or folder.predictions_file(op), predictions)


@dataclass(frozen=True)
class Expression(Answer):
    """An expression and, where all sizes are given, its value."""

    answer: dict[str, Any]

    def parts(self) -> Iterator[str]:
        """The expression, and its value in a line."""
        yield self.answer["expression"]
        if self.answer["seconds"] is not None:
            yield "{seconds:.6g} s at M={m}, K={k}, N={n}".format(**self.answer)


def symbolic(
    *sizes: MxNxK,
    symbolic: bool,  # noqa: ARG001 (it chose this mode)
    device: str,
    recipe: str = "bf16",
    m: int | None = None,
    n: int | None = None,
    k: int | None = None,
    by: str = "calibrated",
    linear: bool = False,
    inference: bool = False,
    role: str | None = None,
    fused: bool = False,
    constants: str | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Print torchao's seconds as an expression, with their value where all sizes are given.

    Args:
        symbolic: with --by torchao: print seconds as an expression in M, K, N
        linear: with --symbolic: forward + backward with casts, not one product
        inference: with --symbolic: the activation's cast and one product
        role: with --symbolic: the cast of this tensor alone: input, weight, grad_output
        fused: with --symbolic: the op before hands activations over in registers
        constants: with --symbolic: torchao-2025, torchao-0.18.0 or datasheet; default: the first
            that has the device
        out: with --symbolic, --run or --points: write here
    """
    if by != "torchao":
        raise ValueError(f"model {by} has no expression: use --by torchao")
    flags = {"linear": linear, "inference": inference, "role": role}
    parts = [name for name, value in flags.items() if value]
    if len(parts) > 1:
        raise ValueError(f"give one of --linear, --inference and --role, not --{parts[1]} too")
    if fused and parts not in (["linear"], ["role"]):
        raise ValueError("--fused needs --linear or --role: nothing else has a cast to fuse")
    from roofcal.models import torchao_formulas as formulas  # sympy takes 0.3 s

    axes = {axis: size for axis, size in {"m": m, "n": n, "k": k}.items() if size is not None}
    fill_axes(axes, "mnk", sizes)
    if missing := [f"--{axis}" for axis in "mkn" if axes and axis not in axes]:
        raise ValueError(f"a value of the expression needs {' '.join(missing)} too")
    torchao_names = {
        ours: alias for alias, ours in RECIPE_ALIASES.items() if alias in formulas.FORMATS
    }
    recipe = torchao_names.get(recipe, recipe)
    chosen = formulas.choose_constants(device, constants, datasheet(device))
    if linear:
        expression = formulas.linear_expression(chosen, recipe, fused)
    elif inference:
        expression = formulas.inference_expression(chosen, recipe)
    elif role:
        expression = formulas.cast_expression(chosen, recipe, role, fused)
    else:
        expression = formulas.product_expression(chosen, recipe)
    seconds = formulas.evaluate(expression, axes["m"], axes["k"], axes["n"]) if axes else None
    answer = Expression(
        {
            "expression": str(expression),
            **{axis: axes.get(axis) for axis in "mkn"},
            "seconds": seconds,
            "constants": chosen.name,
            "device": chosen.device,
        }
    )
    show(answer, as_json=json, out=out)
    remark_on_stderr(f"from: constants {chosen.name} of {chosen.device}")


def many_linears(
    *,
    shapes: Path,
    device: str,
    environment: str | None = None,
    passes: Passes = "forward",
    weights: Weights | None = None,
    recipes: Collection[str] = (),
    min_db: float | None = None,
    by: str = "calibrated",
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Print the fastest option of every linear of a CSV.

    Args:
        shapes (CSV): columns m,n,k: many linears
        out: with --shapes: write here
    """
    sources, folder = device_sources(device, environment, by)
    measured = measured_points(RunFolder.at(folder) if sources.calibration else None)
    weights = weights or usual_weights(passes)
    adviser = Adviser(model_named(by), sources, passes, weights, measured, recipes, min_db)
    show(advise_csv(shapes, adviser), as_json=json, out=out)
    remark_on_stderr(f"from: {folder}")


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
    by: str = "calibrated",
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
    sources, folder = device_sources(device, environment, by)
    run = RunFolder.at(folder) if sources.calibration else None
    evidence = hold_against(table, model_named(by), sources, run, clock=clock)
    if not evidence.products:
        raise ValueError(f"{table}: no answer: {'; '.join(evidence.unanswered)}")
    if out:
        show(evidence.products_csv(), out=out)
    show(evidence, as_json=json)


PREDICT: Final = Command(
    {
        "--symbolic": symbolic,
        "--run": plan_of_run,
        "--points": points,
        "": question("predict", MxNxK, axes=_AXES, prepare=_complete),
    }
)
ADVISE: Final = Command({"--shapes": many_linears, "": question("advise", MxNxK)})
BREAKEVEN: Final = Command(
    {"--run": map_of_run, "": question("breakeven", NxK, prepare=_without_weights)}
)
LLM: Final = Command(
    {
        "--run": table_of_run,
        "--by notebook": notebook,
        "--sweep": question("llm_sweep", flag="sweep"),
        "--compare": question("llm_compare", flag="compare"),
        "--curve": question("llm_curve", flag="curve", prepare=_one_batch),
        "": question("llm"),
    }
)
