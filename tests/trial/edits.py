"""What is written into a copy of the checkout to add an op, and to add a recipe of casts.

An op is its folder, its line in the list and its sweeps: `transpose` and `sweeps` beside this file.
A recipe of casts is a line of vocabulary, how the bench of op cast runs it, and the sweeps that
name it: fp8_blockwise_1x64 has a scale per 64 neighbours of a row. No other file is touched.
"""

import shutil
from pathlib import Path
from typing import Final

from tests.workflow.checkout import Checkout

HERE: Final = Path(__file__).resolve().parent
RECIPE: Final = "fp8_blockwise_1x64"
# file -> a line in it, and what is written behind that line
OF_THE_OP: Final = {
    "roofcal/ops/__init__.py": ('    "all_gather_matmul",\n', '    "transpose",\n'),
}
OF_THE_RECIPE: Final = {
    "roofcal/core/recipes.py": (
        '    "fp8_blockwise_1x128": (_STRIP,),\n',
        f'    "{RECIPE}": (Scale(dtype="fp32", rows=1, cols=64),),\n',
    ),
    "roofcal/ops/cast/bench.py": (
        '    "fp8_blockwise_1x128": partial(in_strips, size=BLOCK),\n',
        f'    "{RECIPE}": partial(in_strips, size=64),\n',
    ),
    "config/sweeps/cast.yaml": (
        "  cpu: {fp8_tensorwise: [torch_eager]",
        f", {RECIPE}: [torch_eager]",
    ),
    "config/sweeps/probe_cast.yaml": (
        "  cpu: {fp8_rowwise_dim0: [torch_eager]",
        f", {RECIPE}: [torch_eager]",
    ),
}


def add_op(checkout: Checkout) -> None:
    """Add op transpose and its probe."""
    ignored = shutil.ignore_patterns("__pycache__")
    target = checkout.folder / "roofcal/ops/transpose"
    shutil.copytree(HERE / "transpose", target, ignore=ignored)
    for sweep in (HERE / "sweeps").glob("*.yaml"):
        shutil.copy2(sweep, checkout.folder / "config/sweeps")
    _insert(checkout, OF_THE_OP)


def add_cast_recipe(checkout: Checkout) -> None:
    """Add the recipe RECIPE to casts and their probe."""
    _insert(checkout, OF_THE_RECIPE)


def _insert(checkout: Checkout, edits: dict[str, tuple[str, str]]) -> None:
    for path, (line, addition) in edits.items():
        checkout.replace(path, line, line + addition)
