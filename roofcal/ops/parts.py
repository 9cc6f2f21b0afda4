"""The parts of an op beside its spec and bench, found by their names in its folder.

model      its equation and the families of its constants
fit        probes -> constants
predict    constants -> predictions
page       what the report shows of this op alone

They are no static imports, for two reasons: one line in roofcal.ops.FOLDERS adds an op, and the
fits stay out of the files that decide what is measured again. roofcal/study/staleness.py knows
which stage depends on which parts. A bench needs torch and is found by roofcal.ops.bench.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from roofcal.ops.spec import OpSpec

if TYPE_CHECKING:  # planning loads this module, and NumPy takes longer than a plan
    import numpy as np

    from roofcal.fitting.probes import Device, Fitted, Probe


class FitPart(Protocol):
    """`fit.py`. One whose families are chosen by cross-validation also has `METHOD`.

    METHOD is a roofcal.fitting.cross_validation.Method; with it the op has learning curves.
    """

    def fit(
        self, probes: "Sequence[Probe]", device: "Device", generator: "np.random.Generator", /
    ) -> "Fitted":
        """The constants that the probes of the op tell of; no probes, no constants."""
        ...


@overload
def load_part(op: OpSpec, part: Literal["fit"]) -> FitPart | None: ...
@overload
def load_part(op: OpSpec, part: Literal["model", "predict", "page"]) -> ModuleType | None: ...
def load_part(op: OpSpec, part: str) -> Any:
    """The module `roofcal/ops/<folder>/<part>.py` of an op; None where its folder has none."""
    name = f"roofcal.ops.{op.folder}.{part}"
    return import_module(name) if find_spec(name) else None
