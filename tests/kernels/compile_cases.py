"""All kernels that are compiled ahead of time, by the name of the case."""

from tests.kernels.cast.compile_cases import cast_cases
from tests.kernels.compile_case import Case
from tests.kernels.gather.compile_cases import gather_cases
from tests.kernels.gemm.compile_cases import gemm_cases
from tests.kernels.int4.compile_cases import int4_cases
from tests.kernels.streams.compile_cases import stream_cases

CASES: dict[str, Case] = dict(
    (*stream_cases(), *cast_cases(), *gemm_cases(), *gather_cases(), *int4_cases())
)
