"""y[cols, rows] = x[rows, cols].T in bf16: read once, written once."""

from dataclasses import replace

from roofcal.core.recipes import Work, nbytes
from roofcal.ops.spec import OpSpec, Shape


def work(recipe: str, shape: Shape) -> Work:
    """Least bytes of a transpose; raises KeyError for another recipe than bf16."""
    if recipe != "bf16":
        raise KeyError(recipe)
    moved = nbytes("bf16", shape["rows"] * shape["cols"])
    return Work(dram_read_bytes=moved, dram_write_bytes=moved)


def regime(shape: Shape) -> str:
    """small below 2^16 elements, large above."""
    return "small" if shape["rows"] * shape["cols"] < 1 << 16 else "large"


OP = OpSpec(
    name="transpose",
    role="study",
    axes=("rows", "cols"),
    recipes=("bf16",),
    providers={"cuda": ("torch_eager",), "cpu": ("torch_eager",)},
    work=work,
    regime=regime,
)
PROBE = replace(OP, name="probe_transpose", role="probe", calibrates=OP.name)
