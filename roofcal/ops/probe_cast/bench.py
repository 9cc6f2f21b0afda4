"""The probe runs the casts of op cast, on shapes of its own."""

from roofcal.ops.cast.bench import build, make_inputs, relative_error, tolerance

__all__ = ["build", "make_inputs", "relative_error", "tolerance"]
