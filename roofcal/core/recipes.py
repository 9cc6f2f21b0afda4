"""Recipes: in which format each operand of a product lives, what a cast writes, how it is scaled.

`Work` is the least that a call does: operations and bytes, which models of time turn into seconds.

Products (RECIPES): `axiswise` is what torch calls `rowwise`: one scale per row of A and one per row
of B, i.e. one scale per output row and column. `blockwise_128x128` has one per 1 x 128 of A and per
128 x 128 of B; its partial sums leave the matrix unit to be scaled, so there is no `fast` one.
`fast` accumulation is `use_fast_accum=True` of torch's scaled product. `groupwise_g64`: one scale
per 64 neighbours of a row of the weights; `asymmetric`: and one zero point.

Casts (CAST_RECIPES): one output per scale, written from one read of the input. Where a scale is one
per column or per block of a column (`dim1`), the output is transposed.

Sizes may be ints or NumPy vectors of whole numbers.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

Size = Any  # an int, or a NumPy vector of whole numbers: bytes are then a vector too

# Width of an element of every format.
BITS: Final[dict[str, int]] = {
    "fp64": 64,
    "fp32": 32,
    "int32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "e8m0": 8,
    "int4": 4,
}


def nbytes(dtype: str, elements: Size) -> Size:
    """Bytes of `elements` packed elements of `dtype`, rounded up to a whole byte.

    Raises KeyError for a dtype that is not in BITS.
    """
    return -(-BITS[dtype] * elements // 8)


Accumulation = Literal["fast", "slow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """One scale of `dtype` per block of `rows` x `cols` elements; None means the whole axis."""

    dtype: str
    rows: int | None
    cols: int | None

    def count(self, rows: Size, cols: Size) -> Size:
        """Number of scales of a matrix of `rows` x `cols` elements."""
        return _block_count(rows, self.rows) * _block_count(cols, self.cols)

    @property
    def is_transposed(self) -> bool:
        """Whether a cast with this scale writes its output transposed."""
        return self.cols == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A matrix in memory: elements of `dtype` and, where it is quantised, what it takes to undo it.

    zero_point   one zero point per scale, of the scale's dtype
    """

    dtype: str
    scale: Scale | None = None
    zero_point: bool = False

    def nbytes(self, rows: Size, cols: Size) -> Size:
        """Bytes of a `rows` x `cols` matrix INCLUDING its scales and zero points."""
        elements = nbytes(self.dtype, rows * cols)
        if self.scale is None:
            return elements
        each = 2 if self.zero_point else 1
        return elements + each * nbytes(self.scale.dtype, self.scale.count(rows, cols))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Formats of C[M,N] = A[M,K] @ B[N,K].T; `math_dtype` names the datasheet rate it runs at."""

    name: str
    a: Operand
    b: Operand
    out: str
    math_dtype: str
    accumulation: Accumulation = "slow"


def _block_count(extent: Size, block: int | None) -> Size:
    whole = 0 * extent + 1
    return whole if block is None else -(-extent // block)


_TENSOR: Final = Scale(dtype="fp32", rows=None, cols=None)
_ROW: Final = Scale(dtype="fp32", rows=1, cols=None)
_STRIP: Final = Scale(dtype="fp32", rows=1, cols=128)
_SQUARE: Final = Scale(dtype="fp32", rows=128, cols=128)


def _plain_recipe(name: str, dtype: str, out: str) -> Recipe:
    operand = Operand(dtype=dtype)
    return Recipe(name=name, a=operand, b=operand, out=out, math_dtype=dtype)


def _fp8_recipe(
    name: str, scale: Scale, accumulation: Accumulation, scale_b: Scale | None = None
) -> Recipe:
    """scale: of both operands, of A alone where `scale_b` is given."""
    return Recipe(
        name=name,
        a=Operand(dtype="fp8_e4m3", scale=scale),
        b=Operand(dtype="fp8_e4m3", scale=scale_b or scale),
        out="bf16",
        math_dtype="fp8",
        accumulation=accumulation,
    )


GEMM_RECIPES: Final[dict[str, Recipe]] = {
    recipe.name: recipe
    for recipe in (
        _plain_recipe("bf16", "bf16", "bf16"),
        _plain_recipe("fp32", "fp32", "fp32"),
        _plain_recipe("int8", "int8", "int32"),
        _fp8_recipe("fp8_tensorwise", _TENSOR, "fast"),
        _fp8_recipe("fp8_tensorwise_slow_accum", _TENSOR, "slow"),
        _fp8_recipe("fp8_axiswise", _ROW, "fast"),
        _fp8_recipe("fp8_axiswise_slow_accum", _ROW, "slow"),
        _fp8_recipe("fp8_blockwise_128x128", _STRIP, "slow", scale_b=_SQUARE),
    )
}


def _int4_recipe(name: str, group: int, *, zero_point: bool = False) -> Recipe:
    weights = Operand(
        dtype="int4", scale=Scale(dtype="bf16", rows=1, cols=group), zero_point=zero_point
    )
    activations = Operand(dtype="bf16")
    return Recipe(name=name, a=activations, b=weights, out="bf16", math_dtype="bf16")


# Weights B in fewer bits than the activations A, which stay in bf16, as does the arithmetic.
WEIGHT_ONLY_RECIPES: Final[dict[str, Recipe]] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="fp8_weight_only",
            a=Operand(dtype="bf16"),
            b=Operand(dtype="fp8_e4m3", scale=_ROW),
            out="bf16",
            math_dtype="bf16",
        ),
        _int4_recipe("int4_groupwise_g32", 32),
        _int4_recipe("int4_groupwise_g64", 64),
        _int4_recipe("int4_groupwise_g128", 128),
        _int4_recipe("int4_groupwise_g64_asymmetric", 64, zero_point=True),
    )
}
RECIPES: Final[dict[str, Recipe]] = GEMM_RECIPES | WEIGHT_ONLY_RECIPES


_COLUMN: Final = Scale(dtype="fp32", rows=None, cols=1)


_MX_ROW: Final = Scale(dtype="e8m0", rows=1, cols=32)  # powers of two
_MX_COLUMN: Final = Scale(dtype="e8m0", rows=32, cols=1)

# Recipe of a cast to fp8 -> the scale of each output.
CAST_RECIPES: Final[dict[str, tuple[Scale, ...]]] = {
    "fp8_tensorwise": (_TENSOR,),
    "fp8_rowwise_dim0": (_ROW,),
    "fp8_rowwise_dim1": (_COLUMN,),
    "fp8_rowwise_both": (_ROW, _COLUMN),
    "mxfp8_dim0": (_MX_ROW,),
    "mxfp8_dim1": (_MX_COLUMN,),
    "mxfp8_both": (_MX_ROW, _MX_COLUMN),
    "fp8_blockwise_1x128": (_STRIP,),
    "fp8_blockwise_1x128_dim1": (Scale(dtype="fp32", rows=128, cols=1),),
    "fp8_blockwise_128x128": (_SQUARE,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Least work of one call: every input read once, every output written once.

    flops          multiply and add counted apart (2 M N K for a matrix product)
    math_dtype     key of the datasheet's peak rates, None where nothing is computed
    """

    flops: float = 0.0
    math_dtype: str | None = None
    dram_read_bytes: float = 0.0
    dram_write_bytes: float = 0.0
    link_bytes: float = 0.0

    @property
    def dram_bytes(self) -> float:
        """Bytes read plus bytes written."""
        return self.dram_read_bytes + self.dram_write_bytes


def gemm_work(recipe: Recipe, m: int, n: int, k: int) -> Work:
    """Least work of C[M,N] = A[M,K] @ B[N,K].T, scales of A and B included."""
    return Work(
        flops=2.0 * m * n * k,
        math_dtype=recipe.math_dtype,
        dram_read_bytes=recipe.a.nbytes(m, k) + recipe.b.nbytes(n, k),
        dram_write_bytes=nbytes(recipe.out, m * n),
    )
