"""Compile kernels for one architecture without a GPU, and print what the compiler made of them.

Run as a process of its own, because a failing LLVM pass aborts the process:
    python tests/kernels/compile_ahead.py ARCHITECTURE [CASE ...]
One line of JSON per case, as soon as it is compiled; all cases of the architecture by default.
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
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.common.architecture import Architecture
from tests.kernels.compile_cases import CASES

MATRIX_INSTRUCTIONS = ("wgmma.mma_async", "tcgen05.mma", "mma.sync", "v_mfma")


def compile_case(case: str, architecture: Architecture) -> dict[str, Any]:
    """{"spills", "shared_bytes", "wide_accesses", ...}; raises what Triton or ptxas raises."""
    wanted = CASES[case]
    names = wanted.kernel.arg_names
    types = {name: wanted.signature.get(name, "constexpr") for name in names}
    # 16-byte alignment of pointers and sizes, as the just-in-time compiler would find it
    kinds = "*" if wanted.odd_sizes else "*i"
    aligned = [i for i, name in enumerate(names) if types[name][0] in kinds]
    source = (GluonASTSource if wanted.gluon else ASTSource)(
        wanted.kernel,
        signature=types,
        constexprs={(names.index(name),): value for name, value in wanted.constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": wanted.num_warps}
    if wanted.num_stages is not None:
        options["num_stages"] = wanted.num_stages
    compiled = triton.compile(source, target=_target(architecture), options=options)
    shared = int(compiled.metadata.shared)
    if isinstance(architecture, str):
        used = {"matrix": _matrix_instructions(compiled.asm["amdgcn"])}
        return {"shared_bytes": shared} | used | _amd_report(compiled.asm["amdgcn"])
    used = {"matrix": _matrix_instructions(compiled.asm["ptx"])}
    unwanted = [word for word in wanted.without if word in compiled.asm["ptx"]]
    found = _nvidia_report(compiled.asm, architecture)
    return {"shared_bytes": shared, "unwanted": unwanted} | used | found


def _matrix_instructions(assembly: str) -> list[str]:
    """Which instructions of a matrix unit stand in PTX or AMD assembly."""
    return [word for word in MATRIX_INSTRUCTIONS if word in assembly]


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
    registers = re.search(r"Used (\d+) registers", said)
    assert registers is not None, f"ptxas states no registers: {said}"
    wide = len(re.findall(r"(?:ld|st)\.global\S*\.v4", assembly["ptx"]))
    return {
        "spills": int(spills.group(1)) + int(spills.group(2)),
        "registers": int(registers.group(1)),
        "wide_accesses": wide,
    }


def main(arguments: list[str]) -> None:
    """Print {"case", ...} per line; a case that does not compile has "error" instead."""
    wanted = arguments[0] if arguments[0].startswith("gfx") else int(arguments[0])
    cases = arguments[1:] or [name for name, case in CASES.items() if wanted in case.architectures]
    for name in cases:
        try:
            report = compile_case(name, wanted)
        except Exception as error:  # noqa: BLE001 (Triton, LLVM and ptxas share no base; reported)
            report = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"case": name} | report), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
