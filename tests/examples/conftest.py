"""Examples import kernels, and are collected before the tests of kernels."""

import tests.interpreted  # noqa: F401
