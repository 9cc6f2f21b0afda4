"""Entry points called with tensors so large that no test machine holds them.

    python -m tests.kernels.huge_calls hopper|other EVERY

EVERY: one in so many sizes of each function, from the first on.

A process of its own, as tests.kernels.common.replay_without_gpu is: tensors have no memory, and of
a launch only the integers are computed (tests.kernels.integers). Prints a line of JSON per call:
{"call", "kernels": [[name, is Gluon], ...], "faults": [...], "refused": message or null}.
"""

import itertools
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.runtime.jit import JITFunction

from kernels.cast import blocks, both_ways, columns, fused, rows, tensorwise
from kernels.common import replay
from kernels.common.checks import MOST_ROWS_OR_COLUMNS as MOST
from kernels.common.fp8_scales import new_block_scales
from kernels.common.operators import kernels_on_fakes
from kernels.gather import flags as arrival_flags
from kernels.gather import plans as gather_plans
from kernels.gather import product as gathered_product
from kernels.gemm import axiswise, blockwise, operands
from kernels.int4 import gemm as int4
from kernels.int4 import rule
from kernels.streams import empty, memory
from tests.kernels import integers
from tests.kernels.common import replay_without_gpu
from tests.kernels.int4.int4_cases import weights_without_memory

Call = tuple[Callable[..., Any], tuple[int, ...]]  # a function, and sizes for it
BF16, E4M3 = torch.bfloat16, torch.float8_e4m3fn
int4_weights = partial(weights_without_memory, zeros=True, device="cpu")
COUNTS: Final = (2**31 - 4095, 2**31 - 1, 2**31 + 5, 2**33 + 16)
# (rows, columns, elements from row to row), up to 140 GB of bf16. With 8 x 8 before them, the last
# of each line is among one in three, and the last of each second line among one in six.
MATRICES: Final = (
    *((MOST, 1, 1), (1, MOST, MOST), (16, 1 << 28, 1 << 28)),
    *((32767, 65538, 65538), (65538, 32767, 32767), (100, 20000, 1 << 26)),  # held in two parts
    *((1 << 28, 16, 16), (1 << 29, 128, 128), ((1 << 30) + 64, 33, 33)),
    *((131088, 16400, 16400), (1 << 22, 1024, 1024), (65552, 65536, 65536)),
    *((1024, 1 << 21, 1 << 21), (33, 64, (1 << 31) - 16), (33, 64, 1 << 31)),
    *((4112, 8192, 1 << 23), (8, 8, 1 << 33), (1 << 17, 128, 0)),  # one row, expanded
    *((128, 1 << 27, 0), (131070, 16384, 16384)),
)
# (m, n, k)
PRODUCTS: Final = (
    *((1 << 17, (1 << 18) + 8, 128), (16, MOST, 16), (65, 1 << 29, 16), (64, 34_200_000, 128)),
    *((1 << 29, 65, 16), (128, 256, 1 << 29), (17, 128, MOST), (4096, 8192, 1 << 23)),
)
# (rows, k, tokens): words, scales or activations of more than 2^31 elements
INT4: Final = (
    *((1 << 20, 1 << 15, 1), (1 << 20, 1 << 15, 16), (1 << 20, 1 << 15, 64)),
    *((128, 1 << 24, 100), (1 << 23, 128, 200), (128, 2048, (1 << 20) - 1), (1 << 21, 1 << 15, 48)),
    *((64, 1 << 28, 1), (152064, 2048, 4096)),  # 2^31 partial sums and more
)
# (rows of a shard, n, k)
GATHERED: Final = ((1 << 27, 128, 64), (1 << 16, (1 << 17) + 8, 64), (128, 1 << 28, 64))
MATRIX_CASTS: Final[tuple[Callable[[torch.Tensor], Any], ...]] = (
    *(tensorwise.tensorwise, rows.rowwise_dim0, columns.rowwise_dim1, columns.rowwise_both),
    *(columns.rowwise_dim0_and_maxima, blocks.mxfp8_dim0, blocks.mxfp8_dim1, blocks.mxfp8_both),
    *(blocks.blockwise_1x128, blocks.blockwise_1x128_dim1, blocks.blockwise_128x128),
    *(both_ways.tensorwise_both, both_ways.blockwise_1x128_both, both_ways.blockwise_128x128_both),
)


def matrix(m: int, n: int, stride: int | None = None, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty_strided((m, n), (n if stride is None else stride, 1), dtype=dtype)


def vector(*size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.float32)


def calls() -> Iterator[Call]:
    yield from ((read_fill_and_copy, (count,)) for count in COUNTS)
    yield cast, (8, 8, 8)
    for sizes in MATRICES:
        yield cast, sizes
        if sizes[1] <= min(fused.MOST_COLUMNS.values()):
            yield norm, sizes
    for product in (axiswise_products, blockwise_products, scales_apart):
        yield from ((product, sizes) for sizes in PRODUCTS)
    yield from ((int4_product, sizes) for sizes in INT4)
    yield every_int4_kernel, ()
    yield from ((gathered, sizes) for sizes in GATHERED)


def read_fill_and_copy(count: int) -> None:
    memory.read_sum(vector(count))
    memory.fill(vector(count), 1.0)
    memory.copy(vector(count), vector(count))
    empty.empty(1)


def cast(m: int, n: int, stride: int) -> None:
    x = matrix(m, n, stride)
    for function in MATRIX_CASTS:
        function(x)
    tensorwise.tensorwise(x, scale=vector(1))
    columns.spread_largest(vector(m), 448.0, n)


def norm(m: int, n: int, stride: int) -> None:
    x = matrix(m, n, stride)
    for kind in ("rowwise", "blockwise_1x128", "mxfp8_floor"):
        fused.layer_norm(x, matrix(1, n)[0], None, kind=kind, both=True)
    fused.silu_mul(x, x, both=True)


def pair(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return matrix(m, k, dtype=E4M3), matrix(n, k, dtype=E4M3)


def axiswise_products(m: int, n: int, k: int) -> None:
    axiswise.gemm(*pair(m, n, k), vector(m, 1), vector(1, n))
    axiswise.gemm(*pair(m, n, k), vector(1), vector(1), accumulation="slow")


def blockwise_products(m: int, n: int, k: int) -> None:
    """Of strips and strips, of strips and squares, and of strips that lie in rows."""
    steps, cpu = -(-k // 128), torch.device("cpu")
    strips, of_squares = new_block_scales(m, steps, cpu), vector(-(-n // 128), steps)
    blockwise.gemm(*pair(m, n, k), strips, new_block_scales(n, steps, cpu))
    blockwise.gemm(*pair(m, n, k), strips, of_squares)
    blockwise.gemm(*pair(m, n, k), vector(m, steps), of_squares)


def scales_apart(m: int, n: int, k: int) -> None:
    scales = (torch.empty_strided((x, -(-k // 128)), (1 << 25, 1 << 26)) for x in (m, n))
    blockwise.gemm(*pair(m, n, k), *scales)


def int4_product(rows: int, k: int, tokens: int) -> None:
    int4.int4_gemm(matrix(tokens, k), int4_weights(rows, k, 32))


def every_int4_kernel() -> None:
    """A product by each kind of configuration of the rules, and by kernels.int4.specialised."""
    w = int4_weights(4096, 4096, 128)
    configs = (x.configs + x.otherwise for x in itertools.chain(*rule.RULES.values()))
    fitting = [config for config in itertools.chain(*configs) if config.fits(w)]
    for config in {type(config): config for config in fitting}.values():
        int4.int4_gemm(matrix(8, 4096), w, config=config)
    int4.int4_gemm(matrix(64, 8192), int4_weights(28672, 8192, 128))
    parts = rule.RULES[rule.SPECIALISED][-1].configs[-1]
    assert parts.split == 8  # parts of K, with 2^31 partial sums and more
    int4.int4_gemm(matrix(8192, 1024), int4_weights(49152, 1024, 128), config=parts)


def gathered(shard: int, n: int, k: int) -> None:
    world, config = 4, gather_plans.NARROW[0]
    a, w = pair(world * shard, n, k)
    cut = gather_plans.chunks_of(shard, config.m, 4)
    flags = torch.empty(world, cut.count, arrival_flags.FLAG_SPACING, dtype=torch.int32)
    state, peers = torch.empty(2, dtype=torch.int32), torch.empty(world, dtype=torch.int64)
    arrival_flags.begin(state, flags, flags, peers, buffer=0, rank=3, chunks=cut.count)
    scales = (vector(world * shard), vector(n))
    c = operands.new_output(a, w)
    gathered_product.launch(a, w, c, scales, flags, state, cut, config, rank=3)


def main(capability: tuple[int, int], every: int) -> None:
    """Call one in so many of everything on a GPU of this capability that is not there."""
    warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
    replay_without_gpu.pretend(capability)
    mock.patch.object(replay, "_is_called_as_it_is", lambda _: True).start()
    kernels: dict[tuple[str, bool], None] = {}
    faults: dict[str, None] = {}

    def compute(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        del warmup
        kernels[self.__name__, self.is_gluon()] = None
        found = integers.faults_of(self, args, options, grid)
        faults.update((f"{self.__name__} {fault}", None) for fault in found)

    mock.patch.object(JITFunction, "run", compute).start()
    seen: Counter[Callable[..., Any]] = Counter()
    for function, sizes in calls():
        seen[function] += 1
        if (seen[function] - 1) % every:
            continue
        kernels.clear()
        faults.clear()
        refused = None
        try:
            with FakeTensorMode(), kernels_on_fakes():
                function(*sizes)
        except ValueError as error:
            refused = str(error)
        line = {"kernels": list(kernels), "faults": list(faults), "refused": refused}
        print(json.dumps({"call": f"{function.__name__} {sizes}"} | line), flush=True)


if __name__ == "__main__":
    main({"hopper": (9, 0), "other": (8, 9)}[sys.argv[1]], int(sys.argv[2]))
