"""A worker process as its supervisor sees it; what becomes of points: see test_supervisor."""

import signal

import pytest

from roofcal.measure.process import describe_exit


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (3, "exit code 3"),
        (-signal.SIGSEGV, "signal SIGSEGV"),
        (-signal.SIGKILL, "signal SIGKILL; the kernel sends it when memory runs out"),
    ],
)
def test_an_exit_code_is_put_in_words(code: int, says: str) -> None:
    assert describe_exit(code) == says
