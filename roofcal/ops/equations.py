"""Which equation of an op the constants of a calibration are of.

The equation of an op has a number, `EQUATION` in its model.py, and a calibration states those it
was fitted with. Whoever changes what an equation says of equal constants raises its number:
constants that were fitted under one equation are wrong under another.
"""

from collections.abc import Collection

from roofcal.core.records import Calibration
from roofcal.ops import BY_NAME, OPS
from roofcal.ops.constants import calibrated_pairs
from roofcal.ops.parts import load_part


def current_equations() -> dict[str, int]:
    """Op -> number of its equation in this roofcal, of ops that have one."""
    numbers = {
        op.name: getattr(load_part(op, "model"), "EQUATION", None)
        for op in OPS
        if op.role == "study"
    }
    return {name: number for name, number in numbers.items() if number is not None}


def other_equations(calibration: Calibration) -> dict[str, tuple[int, int]]:
    """Op -> (number in the calibration, number here), of those that differ.

    0 stands for calibrations from before equations had numbers.
    """
    return {
        op: (calibration.equations.get(op, 0), number)
        for op, number in current_equations().items()
        if calibrated_pairs(calibration.constants, op)
        and calibration.equations.get(op, 0) != number
    }


def predicted_with(ops: Collection[str]) -> frozenset[str]:
    """Ops whose calibrated predictions read constants of these: themselves, and those made of them.

    Op mixed_gemm counts as a whole, although only its contenders in bf16 and fp8 are products of op
    gemm: its other points are compared with those.
    """
    names = set()
    for op in OPS:
        read = {op.name, *(BY_NAME[probe].calibrates for probe in op.calibrated_on)}
        if op.role == "study" and not read.isdisjoint(ops):
            names.add(op.name)
    return frozenset(names)
