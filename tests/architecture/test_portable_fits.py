"""Fits give the same bits on every processor, and call no function of NumPy that does not."""

import ast

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


def test_a_fit_calls_no_function_whose_last_bits_depend_on_the_processor() -> None:
    called = {
        f"{path}:{node.lineno}: np.{node.attr}"
        for path in FILES
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "np"
        and node.attr in UNLIKE
    }
    assert len(FILES) > 10
    assert called == set()
