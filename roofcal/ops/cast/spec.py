"""Casts of a rows x cols bf16 matrix to fp8 e4m3 with scales computed from the data.

fp8_tensorwise     one scale; amax first, then cast: the input is read twice
fp8_rowwise_dim0   one scale per row
fp8_rowwise_dim1   one scale per column, output transposed (cols x rows, contiguous)
fp8_rowwise_both   both of the above from one read
The scale is amax / 448, the value stored is x / scale (448: largest finite e4m3 value).
"""

from typing import Any, Final

from roofcal.model.dtypes import nbytes
from roofcal.model.work import Work
from roofcal.ops.spec import OpSpec, Shape

# recipe -> (reads of the bf16 input, fp8 outputs)
PASSES: Final = {
    "fp8_tensorwise": (2, 1),
    "fp8_rowwise_dim0": (1, 1),
    "fp8_rowwise_dim1": (1, 1),
    "fp8_rowwise_both": (1, 2),
}


def scale_count(recipe: str, rows: Any, cols: Any) -> Any:
    """Number of fp32 scales the recipe writes, of numbers or of vectors of them.

    Raises KeyError for an unknown recipe.
    """
    counts = {
        "fp8_tensorwise": 1,
        "fp8_rowwise_dim0": rows,
        "fp8_rowwise_dim1": cols,
        "fp8_rowwise_both": rows + cols,
    }
    return counts[recipe]


def work(recipe: str, shape: Shape) -> Work:
    """Least bytes of a cast: a global amax needs a second read, every other amax does not."""
    rows, cols = shape["rows"], shape["cols"]
    reads, outputs = PASSES[recipe]
    scales = nbytes("fp32", scale_count(recipe, rows, cols))
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
)
