"""Random products of few tokens with narrow weights, from which their three roofs are fitted."""

from dataclasses import replace

from roofcal.ops.mixed_gemm import spec as mixed_gemm

OP = replace(mixed_gemm.OP, name="probe_mixed_gemm", role="probe", layer_shape=None)
