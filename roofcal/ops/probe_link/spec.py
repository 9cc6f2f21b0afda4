"""Collectives over world_size devices; size_bytes is the whole vector that the collective is about.

all_gather         each device has size / world_size and gets all of it
reduce_scatter     each has all of it and gets its part of the sum
all_reduce         each has all of it and gets all of the sum
copy_engine_peer   each copies size_bytes to the next device at once, by copy engine
"""

from roofcal.core.recipes import Work
from roofcal.ops.spec import OpSpec, Shape

RECIPES = ("copy_engine_peer", "all_gather", "reduce_scatter", "all_reduce")


def work(recipe: str, shape: Shape) -> Work:
    """The bytes of the vector, however often they travel; raises KeyError for another recipe."""
    if recipe not in RECIPES:
        raise KeyError(recipe)
    return Work(link_bytes=float(shape["size_bytes"]))


def regime(shape: Shape) -> str:
    """small below 1 MiB, large above."""
    return "small" if shape["size_bytes"] < 1 << 20 else "large"


OP = OpSpec(
    name="probe_link",
    role="probe",
    axes=("size_bytes",),
    recipes=RECIPES,
    providers={"cuda": ("nccl", "symm_mem"), "cpu": ("gloo",)},
    work=work,
    regime=regime,
    shared_axis="size_bytes",
)
