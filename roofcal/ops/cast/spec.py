"""Casts of a rows x cols bf16 matrix to fp8 e4m3 with scales computed from the data.

fp8_tensorwise     one scale; amax first, then cast: the input is read twice
fp8_rowwise_dim0   one scale per row
fp8_rowwise_dim1   one scale per column, output transposed (cols x rows, contiguous)
fp8_rowwise_both   both of the above from one read
mxfp8_dim0         one scale per 32 neighbours in a row
mxfp8_dim1         one scale per 32 neighbours in a column, output transposed
mxfp8_both         both of the above from one read
fp8_blockwise_1x128       one scale per 128 neighbours in a row, in fp32
fp8_blockwise_1x128_dim1  one scale per 128 neighbours in a column, output transposed
fp8_blockwise_128x128     one scale per square of 128 x 128

The scale is amax / 448, the value stored is x / scale (448: largest finite e4m3 value). mxfp8: the
scale is 2**(exponent of amax - 8) in e8m0, and values above 448 * scale saturate (OCP Microscaling
Formats specification 1.0, section 6.3). Scales per 1 x 128 lie transposed in memory, as products of
blocks read them; blocks at the edge are cut off.
"""

from dataclasses import replace
from typing import Final

from roofcal.core.recipes import CAST_RECIPES, Size, Work, nbytes
from roofcal.ops.spec import OpSpec, Shape

SMALL_ELEMENTS: Final = 1 << 24


def read_bytes(recipe: str, rows: Size, cols: Size) -> Size:
    """Least bytes read: a global amax needs a second read of the input, every other does not."""
    reads = 2 if any(s.rows is None and s.cols is None for s in CAST_RECIPES[recipe]) else 1
    return reads * nbytes("bf16", rows * cols)


def written_bytes(recipe: str, rows: Size, cols: Size) -> Size:
    """Bytes of all outputs with their scales."""
    return sum(
        nbytes("fp8_e4m3", rows * cols) + nbytes(scale.dtype, scale.count(rows, cols))
        for scale in CAST_RECIPES[recipe]
    )


def work(recipe: str, shape: Shape) -> Work:
    """Least bytes of a cast; raises KeyError for an unknown recipe."""
    rows, cols = shape["rows"], shape["cols"]
    return Work(
        dram_read_bytes=read_bytes(recipe, rows, cols),
        dram_write_bytes=written_bytes(recipe, rows, cols),
    )


def regime(shape: Shape) -> str:
    """small below 16 Mi elements (fits the cache of large GPUs), large above."""
    return "small" if shape["rows"] * shape["cols"] < SMALL_ELEMENTS else "large"


def layer_shape(tokens: int, n: int, k: int) -> Shape:
    """The activation of a layer with n x k weights: tokens x k."""
    return {"rows": tokens, "cols": k}


OP = OpSpec(
    name="cast",
    role="study",
    axes=("rows", "cols"),
    recipes=tuple(CAST_RECIPES),
    providers={"cuda": ("torch_eager", "torch_compile", "triton"), "cpu": ("torch_eager",)},
    work=work,
    regime=regime,
    layer_shape=layer_shape,
    computes="cast",
    calibrated_on=("probe_cast",),
)
# Random log-uniform casts per recipe and provider, disjoint from every shape of the study.
PROBE = replace(OP, name="probe_cast", role="probe", calibrates=OP.name, layer_shape=None)
