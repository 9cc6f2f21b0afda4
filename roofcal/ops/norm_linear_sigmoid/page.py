"""What the report shows of linears between a norm and a sigmoid."""

from dataclasses import replace

from roofcal.ops.linear import page as linear

PAGE = replace(
    linear.PAGE,
    meaning="forward and backward of sigmoid(layer_norm(x) wᵀ)",
    title="Linears between a norm and a sigmoid",
    time_includes="Times are those of forward and backward, and include norm, sigmoid and the "
    "casts of x, w and the gradient of the output.",
)
