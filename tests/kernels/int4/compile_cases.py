"""The int4 kernels, compiled ahead of time: plain Triton everywhere; on sm_90 the whole table."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
import triton.language as tl

from kernels.common.architecture import ARCHITECTURES
from kernels.int4 import direct, plain, specialised, staged
from kernels.int4.constants import (
    DirectConstants,
    PlainConstants,
    SpecialisedConstants,
    StagedConstants,
)
from kernels.int4.hopper import activations_descriptor, scales_descriptor, words_descriptor
from kernels.int4.rule import (
    CHAINED_LAUNCHES,
    INT4_PLAIN,
    PLAIN_LAUNCHES,
    RULES,
    SPECIALISED,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
    Int4StagedConfig,
    WeightSizes,
)
from tests.kernels.compile_case import Case
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
POINTERS: Final = ("packed", "words", "scales", "zeros", "x", "out", "partials", "counters")
SIZES: Final = ("ROWS", "TOKENS", "UNITS", "TILES", "GROUPS", "UNITS_PER_SPLIT")


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
    """Everything that rows about such weights can choose, each at the first split that fits."""
    for chained, rule in ((False, PLAIN_LAUNCHES), (True, CHAINED_LAUNCHES)):
        for row in [row for row in RULES[rule] if group >= row.least_group]:
            cases: dict[Int4Config, Int4Case] = {}
            for k in (K, ANOTHER_K):
                size = k if group == K else group
                weights = weights_without_memory(ROWS, k, size, zeros=zeros, dtype=TORCH[dtype])
                for config in row.configs + row.otherwise:
                    if config.fits(weights):
                        case = Int4Case(config, size, zeros, dtype, chained, k)
                        cases.setdefault(_without_cut(config), case)
            yield from cases.values()


def _without_cut(config: Int4Config) -> Int4Config:
    """The configuration but for how K is cut."""
    if isinstance(config, Int4DirectConfig):
        return replace(config, split=1, num_warps=1)
    return replace(config, split=1)


def _case(case: Int4Case) -> Case:
    config = case.config
    weights = WeightSizes(rows=ROWS, k=case.k, group=case.group, zeros=case.zeros or None)
    kernel: Any
    descriptors: dict[str, str] = {}
    if isinstance(config, Int4PlainConfig):
        kernel = plain._int4_plain_kernel
        multiply = {"bf16": tl.bfloat16, "fp16": tl.float16}[case.dtype]
        constants: dict[str, Any] = {"MULTIPLY": multiply}
        constants["C"] = PlainConstants.of(config, weights)
    elif isinstance(config, Int4DirectConfig):
        kernel = direct._int4_direct_kernel
        constants = {"C": DirectConstants.of(config, weights, TORCH[case.dtype])}
    elif isinstance(config, Int4StagedConfig):
        kernel = staged._int4_staged_kernel
        c = StagedConstants.of(config, weights)
        boxes = (c.unroll * c.slices, c.token_tile, c.slice_columns)
        descriptors = _descriptors(case, (c.unroll, c.rows), boxes)
        constants = {"C": c}
    else:
        kernel = specialised._int4_specialised_kernel
        specialised_constants = SpecialisedConstants.of(config, weights)
        rows = specialised_constants.box_rows
        descriptors = _descriptors(case, (1, rows), (2, config.token_tile, 64))
        descriptors |= _scale_descriptors(case, rows)
        constants = {"C": specialised_constants}
    if not isinstance(config, Int4PlainConfig):
        constants["CHAINED"] = case.chained
    types = dict.fromkeys(POINTERS, "*" + case.dtype) | dict.fromkeys(SIZES, "i32") | descriptors
    types |= {
        "packed": "*u8",
        "words": "*i32",
        "partials": "*fp32",
        "counters": "*i32",
    }
    return Case(
        kernel=kernel,
        signature={name: types[name] for name in kernel.arg_names if name in types},
        constants=constants,
        num_warps=config.num_warps,
        architectures=ARCHITECTURES if isinstance(config, Int4PlainConfig) else (90,),
        wide=False,
        odd=("TOKENS",),  # any number of them
        gluon=not isinstance(config, Int4PlainConfig),
        matrix="any",
    )


def _descriptors(
    case: Int4Case, words: tuple[int, int], activations: tuple[int, int, int]
) -> dict[str, str]:
    """Types of the descriptors of such boxes, from descriptors of tensors without memory."""
    weights = weights_without_memory(ROWS, case.k, case.group, zeros=case.zeros)
    x = torch.empty(64, case.k, dtype=TORCH[case.dtype], device="meta")
    wd = words_descriptor(weights.packed, *words)
    xd = activations_descriptor(x, *activations)
    return {
        "wd": f"tensordesc<u8{wd.block_shape},{wd.layout!r}>",
        "xd": f"tensordesc<{case.dtype}{xd.block_shape},{xd.layout!r}>",
    }


def _scale_descriptors(case: Int4Case, rows: int) -> dict[str, str]:
    """Types of the descriptors of scales and zeros for boxes of so many rows."""
    weights = weights_without_memory(ROWS, case.k, case.group, zeros=case.zeros)
    sd = scales_descriptor(weights.scales, rows)
    return dict.fromkeys(("sd", "zd"), f"tensordesc<{case.dtype}{sd.block_shape},{sd.layout!r}>")
