"""Forward and backward of sigmoid(layer_norm(x) @ w.T): the block of torchao's float8 benchmark.

An op of its own beside `linear`, so that both are compared with their own bf16. Recipes, providers,
axes and least work are those of op linear: least bytes do not grow where everything is fused.
"""

from dataclasses import replace

from roofcal.ops.linear import spec as linear

OP = replace(linear.OP, name="norm_linear_sigmoid")
