"""The parts of an op beside its spec and bench, found by their names in its folder.

model      its equation and the families of its constants
fit        probes -> constants: roofcal.fitting.probes.FitPart
predict    constants -> predictions: `predict_calibrated` for an op that was calibrated,
           `predict_composed` for one that is made of others
page       what the report shows of this op alone: roofcal.ops.page

They are no static imports, for two reasons: one line in roofcal.ops.FOLDERS adds an op, and the
fits stay out of the files that decide what is measured again. roofcal/study/staleness.py knows
which stage depends on which parts. A bench needs torch and is found by roofcal.ops.bench.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

from roofcal.ops.spec import OpSpec

Part = Literal["model", "fit", "predict", "page"]


def load_part(op: OpSpec, part: Part) -> ModuleType | None:
    """The module `roofcal/ops/<folder>/<part>.py` of an op; None where its folder has none."""
    name = f"roofcal.ops.{op.folder}.{part}"
    return import_module(name) if find_spec(name) else None
