"""Streams over one buffer of size_bytes: read it, write it, or copy it (2x the bytes)."""

from roofcal.core.recipes import Work
from roofcal.ops.spec import OpSpec, Shape


def work(recipe: str, shape: Shape) -> Work:
    """Bytes moved by `read`, `write` or `copy`; raises KeyError for another recipe."""
    size = float(shape["size_bytes"])
    reads, writes = {"read": (1, 0), "write": (0, 1), "copy": (1, 1)}[recipe]
    return Work(dram_read_bytes=reads * size, dram_write_bytes=writes * size)


def regime(shape: Shape) -> str:
    """small below 64 MiB, large above."""
    return "small" if shape["size_bytes"] < 1 << 26 else "large"


OP = OpSpec(
    name="probe_copy",
    role="probe",
    axes=("size_bytes",),
    recipes=("read", "write", "copy"),
    providers={"cuda": ("triton", "torch_eager"), "cpu": ("torch_eager",)},
    work=work,
    regime=regime,
)
