"""`predict`: seconds of one point, of a CSV or of a run; torchao's formulas in M, K, N."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.ask.answers import Answer
from roofcal.ask.devices import datasheet, device_sources
from roofcal.ask.points import RECIPE_ALIASES, predict_csv
from roofcal.cli.commands import (
    Command,
    MxNxK,
    checked_folder,
    fill_axes,
    option_of,
    question,
    refuse,
    require,
    show,
)
from roofcal.core.jsonl import write_records
from roofcal.core.paths import RunFolder
from roofcal.models.registry import predict_run
from roofcal.ops import BY_NAME, STUDY_OPS

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
        sources = {"environment": None, "model": "calibrated"} | asked
        device_sources(asked["device"], sources["environment"], sources["model"])
    require(asked, f"op {name}", op.axes)


def points(
    *,
    points: Path,
    device: str,
    environment: str | None = None,
    op: str = "gemm",
    provider: str = "",
    world_size: int = 1,
    model: str = "calibrated",
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Answer a CSV of points.

    Args:
        points (CSV): columns recipe and the axes of --op: m,n,k
        out: with --run or --points: write here
    """
    sources, folder = device_sources(device, environment, model)
    answer = predict_csv(points, model, sources, provider, op=op, world_size=world_size)
    show(answer, as_json=json, out=out)
    print(f"from: {folder}", file=sys.stderr)


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
    model: str = "calibrated",
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
        symbolic: with --model torchao: print seconds as an expression in M, K, N
        linear: with --symbolic: forward + backward with casts, not one product
        inference: with --symbolic: the activation's cast and one product
        role: with --symbolic: the cast of this tensor alone: input, weight, grad_output
        fused: with --symbolic: the op before hands activations over in registers
        constants: with --symbolic: torchao-2025, torchao-0.18.0 or datasheet; default: the first
            that has the device
        out: with --symbolic, --run or --points: write here
    """
    if model != "torchao":
        raise ValueError(f"model {model} has no expression: use --model torchao")
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
    print(f"from: constants {chosen.name} of {chosen.device}", file=sys.stderr)


PREDICT: Final = Command(
    {
        "--symbolic": symbolic,
        "--run": plan_of_run,
        "--points": points,
        "": question("predict", MxNxK, axes=_AXES, prepare=_complete),
    }
)
