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
from typing import Any, Final

from roofcal.core.dtypes import BITS, nbytes
from roofcal.core.work import Work
from roofcal.ops.spec import OpSpec, Shape

# recipe -> (reads of the bf16 input, fp8 outputs)
PASSES: Final = {
    "fp8_tensorwise": (2, 1),
    "fp8_rowwise_dim0": (1, 1),
    "fp8_rowwise_dim1": (1, 1),
    "fp8_rowwise_both": (1, 2),
    "mxfp8_dim0": (1, 1),
    "mxfp8_dim1": (1, 1),
    "mxfp8_both": (1, 2),
    "fp8_blockwise_1x128": (1, 1),
    "fp8_blockwise_1x128_dim1": (1, 1),
    "fp8_blockwise_128x128": (1, 1),
}
MX_BLOCK: Final = 32
BLOCK: Final = 128


def scale_bytes(recipe: str, rows: Any, cols: Any) -> Any:
    """Bytes of the scales the recipe writes, of numbers or of vectors of them.

    Raises KeyError for an unknown recipe.
    """
    dtype = "e8m0" if recipe.startswith("mxfp8") else "fp32"
    return BITS[dtype] // 8 * scale_count(recipe, rows, cols)


def scale_count(recipe: str, rows: Any, cols: Any) -> Any:
    """Number of scales the recipe writes, of numbers or of vectors of them.

    Raises KeyError for an unknown recipe.
    """
    size = MX_BLOCK if recipe.startswith("mxfp8") else BLOCK
    across, down = -(-cols // size), -(-rows // size)
    counts = {
        "fp8_tensorwise": 1,
        "fp8_rowwise_dim0": rows,
        "fp8_rowwise_dim1": cols,
        "fp8_rowwise_both": rows + cols,
        "mxfp8_dim0": rows * across,
        "mxfp8_dim1": cols * down,
        "mxfp8_both": rows * across + cols * down,
        "fp8_blockwise_1x128": rows * across,
        "fp8_blockwise_1x128_dim1": cols * down,
        "fp8_blockwise_128x128": down * across,
    }
    return counts[recipe]


def work(recipe: str, shape: Shape) -> Work:
    """Least bytes of a cast: a global amax needs a second read, every other amax does not."""
    rows, cols = shape["rows"], shape["cols"]
    reads, outputs = PASSES[recipe]
    scales = scale_bytes(recipe, rows, cols)
    return Work(
        dram_read_bytes=reads * nbytes("bf16", rows * cols),
        dram_write_bytes=outputs * nbytes("fp8_e4m3", rows * cols) + scales,
    )


def regime(shape: Shape) -> str:
    """small below 16 Mi elements (fits the cache of large GPUs), large above."""
    return "small" if shape["rows"] * shape["cols"] < 1 << 24 else "large"


def layer_shape(tokens: int, n: int, k: int) -> Shape:
    """The activation of a layer with n x k weights: tokens x k."""
    return {"rows": tokens, "cols": k}


OP = OpSpec(
    name="cast",
    role="study",
    axes=("rows", "cols"),
    recipes=tuple(PASSES),
    providers={"cuda": ("torch_eager", "torch_compile", "triton"), "cpu": ("torch_eager",)},
    work=work,
    regime=regime,
    layer_shape=layer_shape,
    computes="cast",
)
# Random log-uniform casts per recipe and provider, disjoint from every shape of the study.
PROBE = replace(OP, name="probe_cast", role="probe", calibrates=OP.name, layer_shape=None)
