"""Triton and Gluon kernels of the study. They need torch and triton and know nothing of roofcal.

    streams   reads, writes and copies of memory; the empty kernel
    cast      matrices to fp8, with a scale per tensor, row, column or block
    gemm      products of fp8 matrices
    int4      products of int4 weights with bf16 or fp16 activations, for few tokens
    gather    an all-gather and the product of what it gathers, in one
    linear    a linear layer in float8, forward and backward, of casts and products
    common    what several families share: architectures, scales, checks, the order of tiles

Import functions from their modules (`from kernels.cast.rows import rowwise_dim0`). The packages
themselves import nothing: what a measurement imports decides when it is measured again
(roofcal.study.staleness). docs/kernels.md lists the traps.
"""
