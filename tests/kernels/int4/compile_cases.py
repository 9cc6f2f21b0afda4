"""The int4 kernels, compiled ahead of time: plain Triton everywhere; on sm_90 the whole table."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import torch

from kernels.common.architecture import ARCHITECTURES
from kernels.int4 import gemm
from kernels.int4.rule import (
    CHAINED_LAUNCHES,
    INT4_PLAIN,
    PLAIN_LAUNCHES,
    RULES,
    SPECIALISED,
    UNIT_COLUMNS,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    figures,
)
from tests.kernels.compile_case import Case, launched, on_gpu
from tests.kernels.int4.int4_cases import weights_without_memory

ROWS: Final = 3584
K: Final = 8192
ANOTHER_K: Final = 3584  # for what K does not let run
# (group, zero points, dtype): the cheapest kind of weights, the usual ones, the dearest
KINDS: Final = (
    *((K, False, "bf16"), (128, False, "bf16")),
    *((128, True, "bf16"), (64, True, "fp16"), (32, True, "bf16")),
)
TORCH: Final = {"bf16": torch.bfloat16, "fp16": torch.float16}
TOKENS: Final = 64


@dataclass(frozen=True, slots=True)
class Int4Case:
    """A configuration for one kind of weights."""

    config: Int4Config
    group: int
    zeros: bool
    dtype: str
    chained: bool = False
    k: int = K

    @property
    def name(self) -> str:
        """What fails, in one line."""
        zeros = " zeros" if self.zeros else ""
        chained = " chained" if self.chained else ""
        return f"int4 {self.config} k {self.k} group {self.group}{zeros} {self.dtype}{chained}"


def int4_cases() -> Iterator[tuple[str, Case]]:
    for kind in KINDS:
        for config in INT4_PLAIN:
            case = Int4Case(config, *kind)
            yield case.name, _case(case)
    for kind in KINDS:
        for case in dict.fromkeys(_table_cases(*kind)):
            yield case.name, _case(case)
    for group, zeros, dtype in KINDS:
        weights = weights_without_memory(ROWS, K, group, zeros=zeros, dtype=TORCH[dtype])
        configs = dict.fromkeys(config for row in RULES[SPECIALISED] for config in row.configs)
        fitting = [config for config in configs if config.fits(weights)]
        for chosen, chained in itertools.product(fitting, (False, True)):
            case = Int4Case(chosen, group, zeros, dtype, chained)
            yield case.name, _case(case)


def _table_cases(group: int, zeros: bool, dtype: str) -> Iterator[Int4Case]:
    """Everything that rows about such weights can choose, each at the first split that fits.

    Of direct blocks one that does not cut K, at the longest part that a warp may have, which takes
    the most registers, and one that cuts it.
    """
    for chained, rule in ((False, PLAIN_LAUNCHES), (True, CHAINED_LAUNCHES)):
        for row in [row for row in RULES[rule] if group >= row.least_group]:
            cases: dict[object, Int4Case] = {}
            for config in row.configs + row.otherwise:
                chosen: Int4Config = config
                if isinstance(config, Int4DirectConfig):
                    chosen = config if config.split > 1 else replace(config, num_warps=4)
                    units = chosen.split * chosen.num_warps * int(figures(chosen)["most_units"])
                    lengths: tuple[int, ...] = (UNIT_COLUMNS * units,)
                    key: object = (config.row_tiles, config.depth, config.split > 1)
                else:
                    lengths, key = (K, ANOTHER_K), replace(config, split=1)
                for k in lengths:
                    size = k if group == K else group
                    weights = weights_without_memory(ROWS, k, size, zeros=zeros, dtype=TORCH[dtype])
                    if chosen.fits(weights):
                        case = Int4Case(chosen, size, zeros, dtype, chained, k)
                        cases.setdefault(key, case)
            yield from cases.values()


def _case(case: Int4Case) -> Case:
    config, dtype = case.config, TORCH[case.dtype]
    weights = weights_without_memory(ROWS, case.k, case.group, zeros=case.zeros, dtype=dtype)
    x, out = on_gpu(dtype, TOKENS, case.k), on_gpu(dtype, TOKENS, ROWS)
    counters = on_gpu(torch.int32, 1024)
    is_plain = isinstance(config, Int4PlainConfig)
    return launched(
        partial(gemm._launch, config, x, weights, out, counters, case.chained),
        architectures=ARCHITECTURES if is_plain else (90,),
        wide=False,
        odd=("TOKENS",),  # any number of them
        matrix="any",
    )
