"""Compile one kernel for one architecture without a GPU, and print what the compiler made of it.

Run as a process of its own, because a failing LLVM pass aborts the process:
    python tests/kernels/compile_ahead.py CASE ARCHITECTURE
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kernels import empty, memory_stream
from kernels.configs import COPY, FILL, READ, Architecture

# case -> (kernel, signature, constants, warps)
CASES: dict[str, tuple[Any, dict[str, str], dict[str, int], int]] = {
    "read_sum": (
        memory_stream._read_sum_kernel,
        {"src": "*fp32", "partial": "*fp32", "COUNT": "i32"},
        {"BLOCK": READ.block},
        READ.num_warps,
    ),
    "fill": (
        memory_stream._fill_kernel,
        {"dst": "*fp32", "value": "fp32", "COUNT": "i32"},
        {"BLOCK": FILL.block},
        FILL.num_warps,
    ),
    "copy": (
        memory_stream._copy_kernel,
        {"src": "*fp32", "dst": "*fp32", "COUNT": "i32"},
        {"BLOCK": COPY.block},
        COPY.num_warps,
    ),
    "empty": (empty._empty_kernel, {}, {}, 4),
}


def compile_case(case: str, architecture: Architecture) -> dict[str, int]:
    """{"spills", "shared_bytes", "wide_loads"} of a case; raises what Triton or ptxas raises."""
    kernel, signature, constants, warps = CASES[case]
    names = kernel.arg_names
    types = {name: signature.get(name, "constexpr") for name in names}
    # 16-byte alignment of pointers and sizes, as the just-in-time compiler would find it
    aligned = [i for i, name in enumerate(names) if types[name][0] in "*i"]
    source = ASTSource(
        kernel,
        signature=types,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    compiled = triton.compile(source, target=_target(architecture), options={"num_warps": warps})
    shared = int(compiled.metadata.shared)
    if isinstance(architecture, str):
        return {"shared_bytes": shared} | _amd_report(compiled.asm["amdgcn"])
    return {"shared_bytes": shared} | _nvidia_report(compiled.asm, architecture)


def _target(architecture: Architecture) -> GPUTarget:
    if isinstance(architecture, str):
        return GPUTarget("hip", architecture, 64)
    return GPUTarget("cuda", architecture, 32)


def _amd_report(assembly: str) -> dict[str, int]:
    spills = re.search(r"\.vgpr_spill_count:\s*(\d+)", assembly)
    assert spills is not None, "the assembly states no spill count"
    wide = len(re.findall(r"(?:global|buffer)_(?:load|store)_(?:dwordx[24]|b(?:64|128))", assembly))
    return {"spills": int(spills.group(1)), "wide_accesses": wide}


def _nvidia_report(assembly: Mapping[str, Any], architecture: int) -> dict[str, int]:
    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    ptxas = folder / ("ptxas-blackwell" if architecture >= 100 else "ptxas")
    target = re.search(r"\.target\s+(\S+)", assembly["ptx"])
    assert target is not None, "the PTX names no target"
    with tempfile.TemporaryDirectory() as place:
        source = Path(place) / "kernel.ptx"
        source.write_text(assembly["ptx"])
        gpu = f"--gpu-name={target.group(1)}"
        command = [str(ptxas), "-v", gpu, str(source), "-o", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    assert spills is not None, f"ptxas states no spills: {said}"
    wide = len(re.findall(r"(?:ld|st)\.global\S*\.v4", assembly["ptx"]))
    return {"spills": int(spills.group(1)) + int(spills.group(2)), "wide_accesses": wide}


if __name__ == "__main__":
    wanted = sys.argv[2] if sys.argv[2].startswith("gfx") else int(sys.argv[2])
    print(json.dumps(compile_case(sys.argv[1], wanted)))
