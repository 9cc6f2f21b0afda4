"""fp8 products in Gluon for Hopper; launched by kernels.gemm.axiswise and blockwise."""
