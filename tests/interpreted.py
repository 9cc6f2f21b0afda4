"""Kernels run on the GPU where there is one, else in Triton's interpreter.

Triton chooses when @triton.jit decorates a kernel, so a folder of tests that import kernels imports
this in its conftest, before anything else.
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    from tests.kernels import faithful

    faithful.install()
