"""An all-gather and the product of what it gathers: kernels.gather.all_gather_matmul."""
