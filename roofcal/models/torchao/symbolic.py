"""The formulas as sympy expressions in whole numbers M, K, N, in seconds.

C[M,N] = A[M,K] @ B[K,N], as torchao writes it. No other module of roofcal imports sympy, which
costs half a second; commands import this module only where a formula is asked for.
"""

from typing import Any, Final

import sympy

from roofcal.models.torchao import casts, linears
from roofcal.models.torchao.constants import Constants

M, K, N = sympy.symbols("M K N", integer=True, positive=True)
_SIZES: Final[tuple[Any, Any, Any]] = (M, K, N)


def product_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The forward product; raises as linears.product_s does."""
    return linears.product_s(constants, recipe, _SIZES, sympy.Max)


def cast_expression(constants: Constants, recipe: str, role: str, fused: bool) -> sympy.Expr:
    """The cast of one tensor; raises as casts.cast_s does."""
    return casts.cast_s(constants, recipe, role, _SIZES, fused, sympy.Max)


def linear_expression(constants: Constants, recipe: str, fused: bool) -> sympy.Expr:
    """Forward and backward of a linear; raises as linears.linear_s does."""
    return linears.linear_s(constants, recipe, _SIZES, fused, sympy.Max)


def inference_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The activation's cast and the product; raises as linears.inference_linear_s does."""
    return linears.inference_linear_s(constants, recipe, _SIZES, sympy.Max)


def evaluate(expression: sympy.Expr, m: int, k: int, n: int) -> float:
    """Seconds at one shape."""
    return float(expression.subs({M: m, K: k, N: n}))
