"""The rules of our kernels: which block, tile, split and launches a host takes, from sizes alone.

They are kernels/*/rule.py, of NumPy alone; kernels ask them too. Models of time and pages take them
from here.
"""

from typing import TYPE_CHECKING

__all__ = ["cast", "gemm", "int4"]

if TYPE_CHECKING:
    from kernels.cast import rule as cast
    from kernels.gemm import rule as gemm
    from kernels.int4 import rule as int4
else:
    try:  # a wheel has these copies; a package `kernels` beside it would be somebody else's
        from roofcal.bundled.kernels.cast import rule as cast
        from roofcal.bundled.kernels.gemm import rule as gemm
        from roofcal.bundled.kernels.int4 import rule as int4
    except ModuleNotFoundError:
        from kernels.cast import rule as cast
        from kernels.gemm import rule as gemm
        from kernels.int4 import rule as int4
