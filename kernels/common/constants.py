"""Configurations that kernels take whole, as one constexpr."""

import inspect


class KernelConstants:
    """The base of configurations whose properties a kernel reads.

    Triton finds a compiled kernel on disk by the kernel's source and the text of its constants. It
    would also find one that was compiled before somebody changed a property. So the source of the
    class is part of the key, which Triton takes from the attribute `cache_key` where there is one.
    """

    __slots__ = ()

    @property
    def cache_key(self) -> str:
        """The values, and the code that computes more from them."""
        return f"{self!r}\n{inspect.getsource(type(self))}"
