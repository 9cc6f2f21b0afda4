"""Recipes of a float8 linear: for each of its three products, how each operand is scaled.

    output        x        @ w.T       [M,K] x [N,K] -> [M,N]
    grad_input    grad_out @ w         [M,N] x [K,N] -> [M,K]
    grad_weight   grad_out.T @ x       [N,M] x [K,M] -> [N,K]

    tensorwise       one scale
    axiswise         one scale per row of the operand, along the sum
    blockwise        one per 1 x 128 along the sum; of w one per 128 x 128
    mxfp8            one e8m0 scale per 32 along the sum
    high_precision   not cast: the type of the input

`fast` leaves sums in the matrix unit; `two_level` adds them to fp32 registers every 128 columns.

Data and checks, of the standard library alone: the study reads this module when it plans, where
there is no torch. As a mapping (YAML), products and operands by name, or one word for a product:

    output: {x: axiswise, w: axiswise, accumulation: two_level}
    grad_input: {grad_out: axiswise, w: tensorwise}
    grad_weight: high_precision

As one line: `axiswise*axiswise@two_level+axiswise*tensorwise+high_precision*high_precision`.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

HIGH_PRECISION: Final = "high_precision"
GRANULARITIES: Final = ("tensorwise", "axiswise", "blockwise", "mxfp8", HIGH_PRECISION)
ACCUMULATIONS: Final = ("fast", "two_level")
# product -> its operands, in the order of C = A @ B.T
OPERANDS: Final[dict[str, tuple[str, str]]] = {
    "output": ("x", "w"),
    "grad_input": ("grad_out", "w"),
    "grad_weight": ("grad_out", "x"),
}
# granularity of an operand -> those of the other for which there is a product
_TOGETHER: Final = {
    "tensorwise": ("tensorwise", "axiswise"),
    "axiswise": ("tensorwise", "axiswise"),
    "blockwise": ("blockwise",),
    "mxfp8": ("mxfp8",),
    HIGH_PRECISION: (HIGH_PRECISION,),
}
# What a product with such operands can do, its default first: sums of blocks leave the matrix unit
# to be scaled; bf16 products have fp32 sums, whatever is asked.
_ACCUMULATIONS: Final = {
    "tensorwise": ("fast", "two_level"),
    "axiswise": ("fast", "two_level"),
    "blockwise": ("two_level",),
    "mxfp8": ("fast",),
    HIGH_PRECISION: ("fast",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRecipe:
    """Granularities of the operands of C = A @ B.T; accumulation "" is the default of them."""

    a: str
    b: str
    accumulation: str = ""

    @property
    def summed(self) -> str:
        """The accumulation, the default filled in."""
        return self.accumulation or _ACCUMULATIONS[self.a][0]

    @property
    def text(self) -> str:
        """The product in the line of a recipe: a*b, or a*b@accumulation where it is no default."""
        usual = self.summed == _ACCUMULATIONS[self.a][0]
        return f"{self.a}*{self.b}" + ("" if usual else f"@{self.summed}")

    @property
    def is_fp8(self) -> bool:
        """Whether its operands are cast."""
        return self.a != HIGH_PRECISION


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRecipe:
    """The three products; raises ValueError for one that no product can do."""

    output: ProductRecipe
    grad_input: ProductRecipe
    grad_weight: ProductRecipe

    def __post_init__(self) -> None:
        """Check every product."""
        for name, product in self.products.items():
            first, second = OPERANDS[name]
            for operand, got in ((first, product.a), (second, product.b)):
                if got not in GRANULARITIES:
                    raise ValueError(_wrong(f"{name}, operand {operand}", got, GRANULARITIES))
            allowed = _TOGETHER[product.a]
            if product.b not in allowed:
                raise ValueError(
                    f"linear recipe: {name}, operand {second}: wanted {' or '.join(allowed)} (no "
                    f"product takes anything else beside {first} {product.a}), got {product.b}"
                )
            if product.summed not in _ACCUMULATIONS[product.a]:
                where, possible = f"accumulation of {product.a} operands", _ACCUMULATIONS[product.a]
                raise ValueError(_wrong(f"{name}, {where}", product.summed, possible))

    @property
    def products(self) -> dict[str, ProductRecipe]:
        """Product by name."""
        return {name: getattr(self, name) for name in OPERANDS}

    @property
    def text(self) -> str:
        """The recipe as one line, equal for equal recipes."""
        return "+".join(product.text for product in self.products.values())

    @property
    def granularities(self) -> set[str]:
        """All that occur."""
        return {end for product in self.products.values() for end in (product.a, product.b)}


def _wrong(where: str, got: object, allowed: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(got), allowed, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"linear recipe: {where}: wanted {' or '.join(allowed)}, got {got}{hint}"


def _alike(granularity: str, accumulation: str = "") -> LinearRecipe:
    product = ProductRecipe(a=granularity, b=granularity, accumulation=accumulation)
    return LinearRecipe(output=product, grad_input=product, grad_weight=product)


# `axiswise_with_gw_hp` is LW_AXISWISE_WITH_GW_HP of torchao pull request 940: grad_weight is not
# cast, and grad_input reads w tensorwise, whose amax is the largest of the rows' scales.
NAMED: Final[dict[str, LinearRecipe]] = {
    HIGH_PRECISION: _alike(HIGH_PRECISION),
    "tensorwise": _alike("tensorwise"),
    "axiswise": _alike("axiswise"),
    "axiswise_with_gw_hp": LinearRecipe(
        output=ProductRecipe(a="axiswise", b="axiswise"),
        grad_input=ProductRecipe(a="axiswise", b="tensorwise"),
        grad_weight=ProductRecipe(a=HIGH_PRECISION, b=HIGH_PRECISION),
    ),
    "blockwise": _alike("blockwise"),
    "mxfp8": _alike("mxfp8"),
}


def recipe_of(given: "LinearRecipe | str | Mapping[str, Any]") -> LinearRecipe:
    """A recipe from itself, a name of NAMED, one line or a mapping; raises ValueError."""
    if isinstance(given, LinearRecipe):
        return given
    if isinstance(given, Mapping):
        return from_dict(given)
    if not isinstance(given, str):
        known = " or ".join(NAMED)  # type: ignore[unreachable]  # to whom types are no law
        raise ValueError(  # noqa: TRY004 (as all mistakes of a recipe)
            f"linear recipe: wanted {known}, a line, a mapping or a LinearRecipe, got "
            f"{type(given).__name__} {given}"
        )
    if given in NAMED:
        return NAMED[given]
    parts = given.split("+")
    if len(parts) != len(OPERANDS) or not all("*" in part for part in parts):
        raise ValueError(_wrong("name", given, tuple(NAMED)))
    return LinearRecipe(**dict(zip(OPERANDS, map(_from_text, parts), strict=True)))


def _from_text(text: str) -> ProductRecipe:
    operands, _, accumulation = text.partition("@")
    a, _, b = operands.partition("*")
    return ProductRecipe(a=a, b=b, accumulation=accumulation)


def from_dict(given: Mapping[str, Any]) -> LinearRecipe:
    """A recipe from a mapping, see the module; raises ValueError for what makes no sense."""
    unknown = [name for name in given if name not in OPERANDS]
    missing = [name for name in OPERANDS if name not in given]
    if unknown:
        raise ValueError(_wrong("product", unknown[0], tuple(OPERANDS)))
    if missing:
        raise ValueError(f"linear recipe: wanted the products {', '.join(OPERANDS)}; "
                         f"{', '.join(missing)} is missing")  # fmt: skip
    return LinearRecipe(**{name: _product_from(name, given[name]) for name in OPERANDS})


def _product_from(name: str, given: Any) -> ProductRecipe:
    if isinstance(given, str):
        return ProductRecipe(a=given, b=given)
    first, second = OPERANDS[name]
    keys = (first, second, "accumulation")
    if not isinstance(given, Mapping):
        wanted = (*GRANULARITIES, f"{{{', '.join(keys)}}}")
        raise ValueError(_wrong(name, given, wanted))  # noqa: TRY004 (as all mistakes of a recipe)
    for key in given:
        if key not in keys:
            raise ValueError(_wrong(f"{name}, key", key, keys))
    for operand in (first, second):
        if operand not in given:
            raise ValueError(f"linear recipe: {name}, operand {operand}: wanted "
                             f"{' or '.join(GRANULARITIES)}, got nothing")  # fmt: skip
    accumulation = str(given.get("accumulation", ""))
    return ProductRecipe(a=str(given[first]), b=str(given[second]), accumulation=accumulation)
