"""Casts of matrices to fp8 (e4m3 or e5m2), with their scales.

kernels.cast.tensorwise   one scale
kernels.cast.rows         a scale per row
kernels.cast.columns      a scale per column, transposed; rows and columns from one read
kernels.cast.blocks       a scale per 1x32 (mxfp8), 1x128 or 128x128
kernels.cast.both_ways    scales per tensor, 1x128 or 128x128, both ways from one read
kernels.cast.fused        the cast of what a norm or an activation makes
kernels.cast.rule         which kernels a cast launches; without torch
kernels.cast.hopper       details: casts in Gluon, which the modules above launch where they fit
"""
