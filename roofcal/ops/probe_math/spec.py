"""Random log-uniform matrix products per recipe, from which math ceilings are fitted."""

from dataclasses import replace

from roofcal.ops.gemm import spec as gemm

OP = replace(gemm.OP, name="probe_math", role="probe", layer_shape=None, baseline_recipe=None)
