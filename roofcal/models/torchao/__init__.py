"""torchao's roofline of float8, MX and NVFP4 linears, part by part.

constants  devices and achievable fractions   traffic   bytes and seconds of casts
products   seconds of matrix products         linear    forward and backward of a linear
model      the above as a model of time       symbolic  the above as expressions in M, K, N
"""
