"""Kernels run in Triton's interpreter, which is chosen when @triton.jit decorates them."""

import os

os.environ["TRITON_INTERPRET"] = "1"
