"""Golden numbers, computed once by torchao's own code, and three ways to compute ours.

golden_2025.json    the code of the seed document torchao_roofline_utils
golden_0_18_0.json  the file torchao/testing/training/roofline_utils.py of the wheel torchao 0.18.0
Each says under `how` what was run. Keys: device, part, "<recipe> [<role>] [alone|fused]"; values: a
list over shapes_m_k_n.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sympy

from roofcal.models.torchao.constants import SETS, Constants
from roofcal.models.torchao.symbolic import K, M, N

FILES = {"torchao-2025": "golden_2025.json", "torchao-0.18.0": "golden_0_18_0.json"}
GOLDEN: dict[str, Any] = {
    name: json.loads((Path(__file__).parent / file).read_text(encoding="utf-8"))
    for name, file in FILES.items()
}
DEVICES = [(name, device) for name, data in GOLDEN.items() for device in data["devices"]]
NEW_DEVICES = [(name, device) for name, device in DEVICES if name == "torchao-0.18.0"]

Formula = Callable[[Any, Any], list[Any]]  # (sizes, maximum) -> seconds of each part
FormulaOf = Callable[[str, Constants], Formula]  # (key of a golden number, device)


def with_numbers(formula: Formula, shapes: list[list[int]]) -> list[list[float]]:
    return [[float(part) for part in formula(tuple(shape), max)] for shape in shapes]


def with_vectors(formula: Formula, shapes: list[list[int]]) -> list[list[float]]:
    sizes = tuple(np.array(shapes, dtype=float).T)
    parts = [np.broadcast_to(part, len(shapes)) for part in formula(sizes, np.maximum)]
    seconds: list[list[float]] = np.array(parts).T.tolist()
    return seconds


def with_symbols(formula: Formula, shapes: list[list[int]]) -> list[list[float]]:
    parts = formula((M, K, N), sympy.Max)
    function = sympy.lambdify(
        (M, K, N), parts, modules="math"
    )  # subs() takes a hundred times as long
    return [[float(part) for part in function(*shape)] for shape in shapes]


WAYS = [with_numbers, with_vectors, with_symbols]
Way = Callable[[Formula, list[list[int]]], list[list[float]]]


def worst_error(way: Way, name: str, device: str, part: str, formula_of: FormulaOf) -> float:
    """Largest relative error of a part of one device over all its recipes and shapes."""
    data = GOLDEN[name]
    worst = 0.0
    for key, expected in data["devices"][device][part].items():
        seconds = way(formula_of(key, SETS[name][device]), data["shapes_m_k_n"])
        golden = np.array(expected, dtype=float).reshape(len(expected), -1)
        assert np.shape(seconds) == golden.shape, key
        errors = np.abs(np.array(seconds) - golden) / np.where(golden == 0, 1.0, golden)
        worst = max(worst, float(errors.max()))
    return worst
