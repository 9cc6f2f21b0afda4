"""The ops of the study. To add one: its folder here, its line in FOLDERS, its sweep file."""

from collections.abc import Iterable
from importlib import import_module
from typing import Final

from roofcal.core.names import did_you_mean
from roofcal.core.records import PlanPoint
from roofcal.ops.spec import OpSpec

# Folders beside this file, in the order of measuring. The spec.py of a folder declares `OP`, and
# `PROBE` where its model is calibrated on points of its own.
FOLDERS: Final = (
    "probe_launch",
    "probe_copy",
    "gemm",
    "cast",
    "mixed_gemm",
    "probe_link",
    "linear",
    "norm_linear_sigmoid",
    "transformer_block",
    "all_gather_matmul",
)
# Imported by name, so that one line adds an op: see study/staleness.py.
_SPECS: Final = [import_module(f"roofcal.ops.{folder}.spec") for folder in FOLDERS]
# Probes are measured first, so that a device that is broken shows early.
OPS: Final[tuple[OpSpec, ...]] = tuple(
    sorted(
        (getattr(spec, name) for spec in _SPECS for name in ("PROBE", "OP") if hasattr(spec, name)),
        key=lambda op: op.role == "study",
    )
)
BY_NAME: Final[dict[str, OpSpec]] = {op.name: op for op in OPS}
STUDY_OPS: Final = tuple(op for op in OPS if op.role == "study")

# What needs no compiler comes first: while kernels of vendors are timed, cores compile the rest.
# Empty launches come late, because compilers pause while the host is timed.
_FIRST: Final = ("gemm", "probe_math", "probe_copy", "cast", "probe_cast", "probe_mixed_gemm")


def measuring_order(names: Iterable[str]) -> list[str]:
    """Names of ops in the order of measuring: ops of the first page, then probes, then the rest.

    Once all probes are measured, constants and predictions are made beside the rest.
    """
    of_all = dict.fromkeys([*_FIRST, *(op.name for op in OPS)])
    known = set(names)
    return [*(name for name in of_all if name in known), *sorted(known - of_all.keys())]


def needed_probes(names: Iterable[str]) -> list[str]:
    """The probes that calibrate the models of these ops, in the order of OPS.

    Launches and streams calibrate all of them.
    """
    needed = {"probe_launch", "probe_copy"}.union(*(BY_NAME[name].calibrated_on for name in names))
    return [op.name for op in OPS if op.name in needed]


def regimes(points: Iterable[PlanPoint]) -> list[str]:
    """The regime of each point: those of one regime speed up and slow down together."""
    return [BY_NAME[point.op].regime(point.shape) for point in points]


def point_problem(point: PlanPoint) -> str | None:
    """Which axis or recipe a point has that its op does not have; None for a sound point.

    Points of an op that this roofcal does not know are not judged.
    """
    op = BY_NAME.get(point.op)
    if op is None:
        return None
    if set(point.shape) != set(op.axes):
        return f"the shape {dict(point.shape)} has not the axes {', '.join(op.axes)} of {op.name}"
    if not op.has_recipe(point.recipe):
        return f"unknown recipe '{point.recipe}'{did_you_mean(point.recipe, op.recipes)}"
    return None
