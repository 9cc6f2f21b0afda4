"""What the entry points refuse before anything runs: ValueError naming argument, wanted and got."""

import math
from collections.abc import Sequence
from typing import Final

import torch

from kernels.common.architecture import compute_capability, lacks_e4m3
from kernels.common.fp8_scales import LARGEST

FP8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)
# Of a matrix: kernels count both in 32 bits, up to the end of a tile or of a step beyond the last.
MOST_ROWS_OR_COLUMNS: Final = 2**31 - 2**16
CASTABLE: Final = (torch.bfloat16, torch.float16, torch.float32)


def check_matrix(x: torch.Tensor, *, of_any_size: bool = False) -> None:
    """Raises ValueError unless x is a bf16, fp16 or fp32 matrix, rows contiguous, on a GPU.

    of_any_size: for kernels that count rows and columns in 64 bits.
    """
    if x.dtype not in CASTABLE:
        raise ValueError(f"x: wanted {dtype_names(*CASTABLE)}, got {dtype_names(x.dtype)}")
    if x.ndim != 2:
        raise ValueError(f"x: wanted a matrix [rows, cols], got shape {tuple(x.shape)}")
    if x.shape[1] > 1 and x.shape[0] > 0 and x.stride(1) != 1:
        raise ValueError(
            f"x: wanted rows without gaps (last stride 1), got strides {x.stride()} of shape "
            f"{tuple(x.shape)}; make it contiguous, or cast its transpose along the other dimension"
        )
    if not of_any_size:
        check_counts("x", x.shape)
    check_device("x", x)


def check_counts(name: str, shape: Sequence[int]) -> None:
    """Raises ValueError for more rows or columns than kernels count in 32 bits."""
    if max(shape) > MOST_ROWS_OR_COLUMNS:
        raise ValueError(
            f"{name}: wanted at most {MOST_ROWS_OR_COLUMNS} rows and columns (kernels count them "
            f"in 32 bits), got shape {tuple(shape)}; split it"
        )


def check_device(name: str, x: torch.Tensor) -> None:
    """Raises ValueError unless x lies on a GPU, or on the CPU where there is none."""
    if not x.is_cuda and torch.cuda.is_available():
        raise ValueError(f"{name}: wanted a tensor on the GPU, got one on {x.device}")


def check_scale_values(name: str, scale: torch.Tensor, *, wait: bool) -> None:
    """Raises ValueError for scales that are NaN, infinite, zero or negative.

    Scales on a GPU are read only with `wait`: reading waits for the GPU, and a CUDA graph cannot
    capture it. Scales on a CPU are always read.
    """
    if scale.is_cuda and not wait:
        return
    wrong = ~((scale > 0) & (scale < math.inf))
    if bool(wrong.any()):
        index = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"{name}: wanted finite scales above zero, got {float(scale[tuple(index)])} at index "
            f"{index} of shape {list(scale.shape)}"
        )


def largest_fp8_value(dtype: torch.dtype, x: torch.Tensor) -> float:
    """The largest finite value of an fp8 type; raises ValueError for one that x's GPU lacks."""
    if dtype not in FP8:
        raise ValueError(f"dtype: wanted {dtype_names(*FP8)}, got {dtype_names(dtype)}")
    if dtype == torch.float8_e4m3fn and lacks_e4m3(x):
        major, minor = compute_capability(x) or (0, 0)
        raise ValueError(
            "dtype: wanted float8_e5m2, got float8_e4m3fn, which a GPU of compute capability "
            f"{major}.{minor} lacks (8.9 and later have it)"
        )
    return LARGEST[dtype]


def dtype_names(*dtypes: torch.dtype) -> str:
    """Types in the words of a message: "bfloat16 or float16"."""
    return " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
