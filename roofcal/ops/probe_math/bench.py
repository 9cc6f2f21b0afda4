"""The probe runs the products of op gemm, on shapes of its own."""

from roofcal.ops.gemm.bench import build, make_inputs, relative_error, tolerance

__all__ = ["build", "make_inputs", "relative_error", "tolerance"]
