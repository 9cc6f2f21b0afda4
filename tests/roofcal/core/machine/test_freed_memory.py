"""Memory that was freed stays with the process until the process gives it back itself."""

import ctypes
import subprocess
import sys

import pytest

from tests.paths import ROOT

# Page faults of the second of two blocks of 48 MiB, written and freed; 32 MiB are the most that
# glibc keeps by itself. A process of its own, because the setting stays.
SCRIPT = """
import ctypes, resource, sys
from roofcal.core.machine.freed_memory import give_freed_memory_back, keep_freed_memory
if sys.argv[1] != "as it comes":
    keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def write_and_free():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(48 << 20)))
    ctypes.memset(block, 1, 48 << 20)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
write_and_free()
if sys.argv[1] == "give back":
    give_freed_memory_back()
print(write_and_free())
"""


def page_faults(how: str) -> int:
    command = [sys.executable, "-c", SCRIPT, how]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return int(result.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this libc has no mallopt")
def test_a_block_that_was_freed_is_not_asked_of_the_kernel_again() -> None:
    assert page_faults("keep") < 10 <= page_faults("as it comes")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="no malloc_trim here")
def test_memory_that_was_given_back_is_asked_of_the_kernel_again() -> None:
    assert page_faults("give back") >= 10
