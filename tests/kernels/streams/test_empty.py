"""The empty kernel runs and refuses a grid of nothing."""

import pytest

from kernels.streams.empty import empty


def test_it_launches() -> None:
    empty(3)


def test_it_refuses_no_programs() -> None:
    with pytest.raises(ValueError, match="at least one program, got 0"):
        empty(0)
