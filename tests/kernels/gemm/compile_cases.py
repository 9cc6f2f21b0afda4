"""The fp8 products, compiled ahead of time: every config, on the GPUs that would use it."""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import torch

from kernels.common.architecture import (
    LARGE_TILES_BYTES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from kernels.common.fp8_scales import new_block_scales
from kernels.gemm import axiswise, blockwise, rule, skinny
from kernels.gemm.hopper import pingpong, staged_scales
from kernels.gemm.operands import Product
from tests.kernels.compile_case import (
    AMD_WITH_E4M3,
    FP8,
    NVIDIA_WITH_E4M3,
    WITH_E4M3,
    Case,
    launched,
    on_gpu,
)

LARGE = tuple(
    arch
    for arch in WITH_E4M3
    if arch not in WITHOUT_TENSOR_MEMORY_UNIT and SHARED_MEMORY_LIMIT[arch] >= LARGE_TILES_BYTES
)
SMALLER = tuple(arch for arch in WITH_E4M3 if arch not in LARGE)
HOPPER: tuple[Architecture, ...] = (90,)
BOOLEANS = (False, True)
M, N, K = 256, 512, 2048
Scales = Callable[[int], torch.Tensor]  # of an operand of so many rows
Cases = Iterator[tuple[str, Case]]


def gemm_cases() -> Cases:
    yield from _axiswise()
    yield from _blockwise()
    yield from _pingpong()
    yield from _staged_scales()
    yield from _skinny()


def one(_rows: int) -> torch.Tensor:
    return on_gpu(torch.float32, 1)


def of_rows(rows: int) -> torch.Tensor:
    return on_gpu(torch.float32, rows, 1)


def squares(rows: int) -> torch.Tensor:
    return on_gpu(torch.float32, -(-rows // 128), K // 128)


def strips(rows: int) -> torch.Tensor:
    return new_block_scales(rows, K // 128, torch.device("meta"))


def operands(
    scales_a: Scales,
    scales_b: Scales,
    types: tuple[str, str] = ("e4m3", "e4m3"),
    m: int = M,
    n: int = N,
) -> Product:
    (_, left), (_, right) = FP8[types[0]], FP8[types[1]]
    a, b, c = on_gpu(left, m, K), on_gpu(right, n, K), on_gpu(torch.bfloat16, m, n)
    return Product(a, b, c, scales_a(m), scales_b(n))


def product_case(launch: Callable[[], None], gpus: tuple[Architecture, ...]) -> Case:
    """A case that has to use the matrix unit."""
    return launched(launch, gpus[0], architectures=gpus, wide=False, matrix="fastest")


def _axiswise() -> Cases:
    for table, accumulation, gpus in (
        *((rule.FAST, "fast", LARGE), (rule.SLOW, "slow", LARGE)),
        *((rule.SMALL, "fast", SMALLER),),
    ):
        promote = axiswise.PROMOTION if accumulation == "slow" else 0
        for config, (scale, scales) in itertools.product(
            table, (("tensorwise", one), ("axiswise", of_rows))
        ):
            launch = partial(axiswise.launch, operands(scales, scales), config, promote=promote)
            name = f"gemm_{accumulation}_{config.m}x{config.n}x{config.k}_{scale}"
            yield name, product_case(launch, gpus)
    for kind in FP8:
        mixed = operands(of_rows, of_rows, (kind, "e5m2"))
        launch = partial(axiswise.launch, mixed, rule.FAST[0], promote=0)
        yield f"gemm_{kind}_e5m2", product_case(launch, LARGE)


def _blockwise() -> Cases:
    kinds = {False: strips, True: squares}
    for table, gpus in ((rule.BLOCKS, LARGE), (rule.SMALL_BLOCKS, SMALLER)):
        for config, a, b in itertools.product(table, BOOLEANS, BOOLEANS):
            scaled = operands(kinds[a], kinds[b])
            launch = partial(blockwise.launch, scaled, config, squares=(a, b))
            names = f"{kinds[a].__name__}_{kinds[b].__name__}"
            name = f"gemm_blocks_{config.m}x{config.n}_{names}_{config.num_stages}"
            yield name, product_case(launch, gpus)


def _pingpong() -> Cases:
    for name, scales, types in (
        ("tensorwise", one, ("e4m3", "e4m3")),
        ("axiswise", of_rows, ("e4m3", "e4m3")),
        ("axiswise_e5m2_e4m3", of_rows, ("e5m2", "e4m3")),
    ):
        launch = partial(pingpong.launch, operands(scales, scales, types))
        yield f"gemm_pingpong_{name}", product_case(launch, HOPPER)


def _staged_scales() -> Cases:
    for table, scales_b in ((staged_scales.SQUARES, squares), (staged_scales.STRIPS, strips)):
        rows_b = scales_b is strips
        for config in table:
            name = f"gemm_large_blocks_{config.m}x{config.n}{'_rows' if rows_b else ''}"
            launch = partial(staged_scales.launch, config=config, rows_b=rows_b)
            scaled = operands(strips, scales_b)
            yield name, product_case(partial(launch, scaled), HOPPER)
            if rows_b and config.m == 192:  # gradients may be e5m2
                scaled = operands(strips, scales_b, ("e5m2", "e4m3"))
                yield f"{name}_e5m2_e4m3", product_case(partial(launch, scaled), HOPPER)


def _skinny() -> Cases:
    def few(scales_b: Scales, rows: int, split: int, config: rule.SkinnyConfig) -> Product:
        """A product of which K is cut in so many parts, so that 132 units have two programs."""
        scales_a = of_rows if scales_b is of_rows else strips
        return operands(scales_a, scales_b, m=rows, n=config.n * 264 // split)

    for rows, split in itertools.product((16, 32, 64), (1, 4)):
        product = few(of_rows, rows, split, rule.FEW_ROWS)
        launch = partial(skinny.launch, product, promote=0)
        yield f"gemm_skinny_{rows}_split{split}", product_case(launch, (*LARGE, *SMALLER))
    for config, gpus in (
        (rule.FEW_ROWS_BLOCKS, NVIDIA_WITH_E4M3),
        (rule.FEW_ROWS, AMD_WITH_E4M3),
    ):
        for scales_b, rows, split in ((squares, 16, 4), (strips, 64, 1)):
            kinds = (False, scales_b is squares)
            product = few(scales_b, rows, split, config)
            launch = partial(skinny.launch_blockwise, product, config, squares=kinds)
            name = f"gemm_skinny_blocks_{config.n}_{rows}_split{split}"
            yield name, product_case(launch, gpus)
