"""What is said of architectures is said of every one."""

from kernels.common.configs import ARCHITECTURES, SHARED_MEMORY_LIMIT


def test_every_architecture_has_a_limit_of_shared_memory() -> None:
    assert set(SHARED_MEMORY_LIMIT) == set(ARCHITECTURES)
