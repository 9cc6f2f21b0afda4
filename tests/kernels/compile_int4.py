"""Compile the int4 kernels ahead of time, as compile_ahead does for those in one call.

Run as a process of its own, because a failing LLVM pass aborts the process:
    python tests/kernels/compile_int4.py ARCHITECTURE
One line of JSON per case, as soon as it is compiled.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.common.architecture import Architecture
from kernels.int4 import direct as int4_direct
from kernels.int4 import plain as int4_plain
from kernels.int4 import plans as int4_plans
from kernels.int4 import staged as int4_staged
from kernels.int4.configs import (
    INT4_PLAIN,
    INT4_TABLE,
    Int4Config,
    Int4DirectConfig,
    Int4PlainConfig,
)
from kernels.int4.packing import Int4Weights, padded
from tests.kernels.compile_ahead import _amd_report, _nvidia_report, _target

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


@dataclass(frozen=True, slots=True)
class Case:
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
        return f"{self.config} k {self.k} group {self.group}{zeros} {self.dtype}{chained}"


def cases(architecture: Architecture) -> Iterator[Case]:
    """Plain Triton everywhere; on sm_90 what the table can choose for each kind of weights."""
    for kind in KINDS:
        for plain in INT4_PLAIN:
            yield Case(plain, *kind)
    if architecture == 90:
        for kind in KINDS:
            yield from dict.fromkeys(table_cases(*kind))


def table_cases(group: int, zeros: bool, dtype: str) -> Iterator[Case]:
    """Everything that rows about such weights can choose, each at the first split that fits."""
    for chained, table in INT4_TABLE.items():
        for row in [row for row in table if group >= row.least_group]:
            kinds: dict[Int4Config, Case] = {}
            for k in (K, ANOTHER_K):
                of = k if group == K else group
                weights = weights_of(of, zeros, dtype, k)
                for config in row.configs + row.otherwise:
                    if int4_plans.fits(config, weights):
                        case = Case(config, of, zeros, dtype, chained, k)
                        kinds.setdefault(kind_of(config), case)
            yield from kinds.values()


def kind_of(config: Int4Config) -> Int4Config:
    """The configuration but for how K is cut."""
    if isinstance(config, Int4DirectConfig):
        return replace(config, split=1, num_warps=1)
    return replace(config, split=1)


def weights_of(group: int, zeros: bool, dtype: str, k: int = K) -> Int4Weights:
    """Weights without memory, for questions about their sizes."""
    tiles = padded(ROWS) // 16
    scales = torch.empty(tiles, k // group, 16, dtype=TORCH[dtype], device="meta")
    return Int4Weights(
        packed=torch.empty(tiles, k // 128, 1024, dtype=torch.uint8, device="meta"),
        scales=scales,
        zeros=scales if zeros else None,
        rows=ROWS,
        k=k,
        group=group,
    )


def source_of(case: Case) -> Any:
    """What Triton compiles for a case."""
    if isinstance(case.config, Int4PlainConfig):
        return _source(ASTSource, int4_plain._int4_plain_kernel, _plain_constants(case), case, {})
    if isinstance(case.config, Int4DirectConfig):
        constants: dict[str, Any] = dict(
            int4_plans.direct_constants(
                case.config, case.k, case.group, TORCH[case.dtype], case.zeros
            )
        )
        kernel, types = int4_direct._int4_direct_kernel, {}
    else:
        constants = dict(int4_plans.staged_constants(case.config, case.k, case.group, case.zeros))
        kernel, types = int4_staged._int4_staged_kernel, _descriptors(case)
    constants |= {"CHAINED": case.chained, "num_warps": case.config.num_warps}
    return _source(GluonASTSource, kernel, constants, case, types)


def _descriptors(case: Case) -> dict[str, str]:
    """Types of the descriptors, from descriptors of tensors without memory."""
    weights = weights_of(case.group, case.zeros, case.dtype, case.k)
    x = torch.empty(64, case.k, dtype=TORCH[case.dtype], device="meta")
    per = int4_plans.groups_per_unit(case.k, case.group)
    assert not isinstance(case.config, Int4PlainConfig | Int4DirectConfig)
    wd = int4_staged.words_descriptor(weights.packed, case.config)
    xd = int4_staged.activations_descriptor(x, case.config, per)
    return {
        "wd": f"tensordesc<u8{wd.block_shape},{wd.layout!r}>",
        "xd": f"tensordesc<{case.dtype}{xd.block_shape},{xd.layout!r}>",
    }


def _plain_constants(case: Case) -> dict[str, Any]:
    config = case.config
    assert isinstance(config, Int4PlainConfig)
    return {
        "SPLIT": config.split,
        "PIECE": 32 if case.group == 32 else 64,
        "GROUP": 0 if case.group == case.k else case.group,
        "HAS_ZEROS": case.zeros,
        "ROW_TILES": config.row_tiles,
        "TOKEN_TILE": config.token_tile,
        "MULTIPLY": {"bf16": tl.bfloat16, "fp16": tl.float16}[case.dtype],
    }


def _source(
    kind: Any, kernel: Any, constants: dict[str, Any], case: Case, types: dict[str, str]
) -> Any:
    names = kernel.arg_names
    pointers = dict.fromkeys(POINTERS, "*" + case.dtype)
    pointers |= {"packed": "*u8", "words": "*i32", "partials": "*fp32", "counters": "*i32"}
    known = pointers | types | dict.fromkeys(constants, "constexpr")
    signature = {name: known.get(name, "i32") for name in names}
    # as the just-in-time compiler would find it; TOKENS may be anything
    aligned = [i for i, n in enumerate(names) if signature[n][0] in "*i" and n != "TOKENS"]
    return kind(
        kernel,
        signature=signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )


def main(architecture: Architecture) -> None:
    """Print {"case", "spills", "shared_bytes", ...}, or {"case", "error"}, per line."""
    for case in cases(architecture):
        try:
            compiled = triton.compile(
                source_of(case),
                target=_target(architecture),
                options={"num_warps": case.config.num_warps},
            )
            report: dict[str, Any] = {"shared_bytes": int(compiled.metadata.shared)}
            if isinstance(architecture, str):
                report |= _amd_report(compiled.asm["amdgcn"])
            else:
                report |= _nvidia_report(compiled.asm, architecture)
                report["matrix"] = compiled.asm["ptx"].count("mma")
        except Exception as error:  # noqa: BLE001 (Triton, LLVM and ptxas share no base; reported)
            report = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps({"case": case.name} | report), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1].startswith("gfx") else int(sys.argv[1]))
