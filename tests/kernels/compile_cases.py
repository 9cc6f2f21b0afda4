"""All kernels that are compiled ahead of time, by the name of the case."""

from tests.kernels.cast.compile_cases import cast_cases
from tests.kernels.compile_case import Case
from tests.kernels.compile_gathered import gathered
from tests.kernels.compile_gemm_cases import gemms
from tests.kernels.streams.compile_cases import stream_cases

CASES: dict[str, Case] = dict((*stream_cases(), *cast_cases(), *gemms(), *gathered()))
