"""The formulas as sympy expressions in whole numbers M, K, N, in seconds.

For C[M,N] = A[M,K] @ B[K,N], as torchao builds them. The only module of roofcal that imports sympy;
it costs half a second, so a command imports it where it is asked for.
"""

from typing import Any, Final

import sympy

from roofcal.models.torchao import inference, linear, products
from roofcal.models.torchao.constants import Constants

M, K, N = sympy.symbols("M K N", integer=True, positive=True)
_SIZES: Final[tuple[Any, Any, Any]] = (M, K, N)


def product_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The forward product; raises PredictError as products.product_s."""
    return products.product_s(constants, recipe, _SIZES, sympy.Max)


def cast_expression(constants: Constants, recipe: str, role: str, fused: bool) -> sympy.Expr:
    """The cast of one tensor; raises PredictError as linear.cast_s."""
    return linear.cast_s(constants, recipe, role, _SIZES, fused, sympy.Max)


def linear_expression(constants: Constants, recipe: str, fused: bool) -> sympy.Expr:
    """Forward and backward of a linear; raises PredictError as linear.linear_s."""
    return linear.linear_s(constants, recipe, _SIZES, fused, sympy.Max)


def inference_expression(constants: Constants, recipe: str) -> sympy.Expr:
    """The activation's cast and the product; raises PredictError as inference_linear_s."""
    return inference.inference_linear_s(constants, recipe, _SIZES, sympy.Max)


def evaluate(expression: sympy.Expr, m: int, k: int, n: int) -> float:
    """Seconds at one shape."""
    return float(expression.subs({M: m, K: k, N: n}))
