"""What errors of providers mean."""

import pytest
import torch

from roofcal.measure.failures import RankError, is_broken, reason_of, status_of
from roofcal.ops.spec import Unsupported

ERRORS: dict[str, list[Exception]] = {
    "out_of_memory": [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: 1 TB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA driver error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"),
    ],
    "unsupported": [
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling"),
        RuntimeError('"addmm_impl_cpu_" not implemented for Half'),
        NotImplementedError("rowwise on CPU"),
    ],
    "failed": [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        ValueError("shapes cannot be multiplied"),
    ],
}


@pytest.mark.parametrize(
    ("error", "status"), [(error, status) for status, errors in ERRORS.items() for error in errors]
)
def test_an_error_of_a_provider_has_a_status(error: Exception, status: str) -> None:
    assert status_of(error) == status


def test_memory_that_ran_out_in_a_capture_is_not_taken_for_a_failed_capture() -> None:
    error = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    error.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    assert status_of(error) == "out_of_memory"


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (Unsupported("no"), "unsupported", "no"),
        (RankError("out_of_memory", "rank 1: too large"), "out_of_memory", "rank 1: too large"),
        (ValueError("one\ntwo"), "failed", "ValueError: one"),
        (ValueError("raised:\nTypeError: no\nat"), "failed", "ValueError: raised: TypeError: no"),
    ],
)
def test_refusals_keep_their_own_words(error: Exception, status: str, reason: str) -> None:
    assert (status_of(error), reason_of(error)) == (status, reason)


def test_a_rank_that_lost_its_context_is_broken_whatever_it_reports() -> None:
    lost = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    failed = RankError("failed", "rank 0: it broke")
    assert not is_broken(failed)
    failed.__cause__ = lost
    assert is_broken(failed)
    assert is_broken(lost)
