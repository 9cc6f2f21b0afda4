"""What an error of a provider means: the status of its point, and whether the process survives."""

import torch

from roofcal.core.records import Status
from roofcal.ops.spec import Unsupported

# How torch, CUDA, cuBLAS and the CPU allocator word it, lower case
_NO_MEMORY = (
    "can't allocate memory",
    "cuda error: out of memory",
    "cuda driver error: out of memory",  # of memory that is mapped: symmetric, expandable segments
    "cublas_status_alloc_failed",
)
_REFUSALS = ("not implemented", "cublas_status_not_supported")


class RankError(Exception):
    """Some ranks failed and others did not; message and `status` are those of the first."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def status_of(error: BaseException) -> Status:
    """The status that an exception of a provider stands for.

    cuBLAS and oneDNN refuse what they lack with NotImplementedError or a RuntimeError that says so.
    Running out of memory while a graph is captured comes out as the error of the broken capture,
    with the real one as its context.
    """
    if isinstance(error, RankError):
        return error.status
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    kinds = [_kind(one) for one in chain]
    return "out_of_memory" if "out_of_memory" in kinds else kinds[0]


def _kind(error: BaseException) -> Status:
    text = str(error).lower()
    ran_out = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if ran_out or any(words in text for words in _NO_MEMORY):
        return "out_of_memory"
    is_refusal = isinstance(error, NotImplementedError | Unsupported)
    if is_refusal or any(words in text for words in _REFUSALS):
        return "unsupported"
    return "failed"


def is_broken(error: BaseException) -> bool:
    """Whether the CUDA context of this process is lost with this error."""
    own = error.__cause__ if isinstance(error, RankError) else error
    return isinstance(own, torch.AcceleratorError)


def reason_of(error: Exception) -> str:
    """What happened, in one line: refusals in their own words, other errors with their type."""
    if isinstance(error, Unsupported | RankError):
        return str(error)
    lines = str(error).strip().splitlines() or ["no message"]
    # "backend='inductor' raised:" of torch.compile says nothing; what was raised is the next line.
    text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return f"{type(error).__name__}: {text}"[:500]
