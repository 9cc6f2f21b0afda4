"""Int4 weights times bf16 or fp16 activations, for up to some hundred tokens.

kernels.int4.gemm      the product
kernels.int4.packing   weights: quantise, pack, unpack
kernels.int4.rule      which kernel and block a product takes; without torch
"""
