"""The streams and the empty kernel, compiled ahead of time."""

from collections.abc import Iterator

from kernels.streams import memory
from tests.kernels.compile_case import Case

TYPES = {"src": "*fp32", "dst": "*fp32", "partial": "*fp32", "value": "fp32", "COUNT": "i32"}
KERNELS = {
    "read_sum": (memory._read_sum_kernel, memory.READ),
    "fill": (memory._fill_kernel, memory.FILL),
    "copy": (memory._copy_kernel, memory.COPY),
}


def stream_cases() -> Iterator[tuple[str, Case]]:
    for name, (kernel, config) in KERNELS.items():
        case = Case(
            kernel=kernel,
            signature={k: v for k, v in TYPES.items() if k in kernel.arg_names},
            constants={"BLOCK": config.block},
            num_warps=config.num_warps,
        )
        yield name, case
    yield "empty", Case(kernel=memory._empty_kernel, wide=False)
