"""Products of fp8 matrices, C[M,N] bf16 = A[M,K] @ B[N,K].T, times scales.

kernels.gemm.axiswise    a scale per tensor or per row, in any mixture
kernels.gemm.blockwise   a scale per 1x128 or 128x128
kernels.gemm.rule        which tile and split a product takes; without torch
kernels.gemm.skinny      details: either of them where A has at most 64 rows
kernels.gemm.hopper      details: either of them in Gluon, for large products on Hopper
"""
