"""Element formats and their width in bits."""

from typing import Any, Final

Size = Any  # an int, or a NumPy vector of whole numbers: bytes are then a vector too

BITS: Final[dict[str, int]] = {
    "fp64": 64,
    "fp32": 32,
    "int32": 32,
    "fp16": 16,
    "bf16": 16,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "int8": 8,
    "e8m0": 8,
    "int4": 4,
}


def nbytes(dtype: str, elements: Size) -> Size:
    """Bytes of `elements` packed elements of `dtype`, rounded up to a whole byte.

    Raises KeyError for a dtype that is not in BITS.
    """
    return -(-BITS[dtype] * elements // 8)
