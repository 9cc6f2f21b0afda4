"""Random log-uniform casts per recipe and provider, from which their speeds are fitted."""

from dataclasses import replace

from roofcal.ops.cast import spec as cast

OP = replace(cast.OP, name="probe_cast", role="probe", layer_shape=None)
