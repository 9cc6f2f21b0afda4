"""The probe runs the products of op mixed_gemm, on shapes of its own."""

from roofcal.ops.mixed_gemm.bench import (
    PROVIDER_TOLERANCE,
    arrange,
    build,
    make_inputs,
    relative_error,
    tolerance,
)

__all__ = ["PROVIDER_TOLERANCE", "arrange", "build", "make_inputs", "relative_error", "tolerance"]
