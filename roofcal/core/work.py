"""The least work of a point: operations and bytes, which models of time turn into seconds."""

from dataclasses import dataclass

from roofcal.core.recipes import Recipe, nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Least work of one call: every input read once, every output written once.

    flops          multiply and add counted apart (2 M N K for a matrix product)
    math_dtype     key of the datasheet's peak rates, None where nothing is computed
    """

    flops: float = 0.0
    math_dtype: str | None = None
    dram_read_bytes: float = 0.0
    dram_write_bytes: float = 0.0
    link_bytes: float = 0.0

    @property
    def dram_bytes(self) -> float:
        """Bytes read plus bytes written."""
        return self.dram_read_bytes + self.dram_write_bytes


def gemm_work(recipe: Recipe, m: int, n: int, k: int) -> Work:
    """Least work of C[M,N] = A[M,K] @ B[N,K].T, scales of A and B included."""
    return Work(
        flops=2.0 * m * n * k,
        math_dtype=recipe.math_dtype,
        dram_read_bytes=recipe.a.nbytes(m, k) + recipe.b.nbytes(n, k),
        dram_write_bytes=nbytes(recipe.out, m * n),
    )
