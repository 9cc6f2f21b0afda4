"""An empty kernel, launched eagerly (method wall) or replayed in a CUDA graph (method graph)."""

from roofcal.core.recipes import Work
from roofcal.ops.spec import OpSpec, Shape


def work(recipe: str, shape: Shape) -> Work:
    """Nothing is computed and nothing moved."""
    if recipe != "empty":
        raise KeyError(recipe)
    return Work()


def regime(shape: Shape) -> str:
    """There is one regime."""
    return "launch"


OP = OpSpec(
    name="probe_launch",
    role="probe",
    axes=("grid",),
    recipes=("empty",),
    providers={"cuda": ("triton",), "cpu": ("torch_eager",)},
    work=work,
    regime=regime,
)
