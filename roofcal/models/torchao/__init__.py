"""torchao's roofline of float8, MX and NVFP4 linears, as docs/models.md states it.

constants  devices and achievable fractions      casts    bytes and seconds of casts
linears    products, training and inference      model    products and casts of a plan
symbolic   the formulas as expressions in M, K, N
"""
