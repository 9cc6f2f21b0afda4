"""A linear layer in float8, alone or between a norm and a sigmoid.

kernels.linear.layer                 Float8Linear
kernels.linear.norm_linear_sigmoid   NormLinearSigmoid
kernels.linear.recipes               how each product's operands are scaled; without torch
"""
