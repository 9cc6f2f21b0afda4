"""Fits give the same bits on every processor, and call no function of NumPy that does not."""

import ast
from pathlib import Path

import pytest

from tests.paths import ROOT

# NumPy computes these by vector instructions that the processor has; roofcal.core.portable_math
# has exp and log of the same bits everywhere.
UNLIKE = frozenset(
    ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "power", "float_power", "logaddexp"]
)
FILES = sorted(
    path.relative_to(ROOT)
    for pattern in (
        *("roofcal/fitting/*.py", "roofcal/ops/*/fit.py", "roofcal/ops/*/model.py"),
        "roofcal/judge/rivals.py",
    )
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_fit_calls_no_function_whose_last_bits_depend_on_the_processor(path: Path) -> None:
    tree = ast.parse((ROOT / path).read_text())
    called = {
        f"np.{node.attr}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
        and node.attr in UNLIKE
    }
    assert not called
