"""Compile kernels without a GPU, and write what the compiler made of them.

Run as a process of its own:
    python -m tests.kernels.compile_ahead FOLDER < {"ARCHITECTURE": ["CASE", ...], ...}
It forks for every architecture, because a failing LLVM pass aborts the process; imports, 3 s, are
made once. In FOLDER/ARCHITECTURE stands a line of JSON per case, as soon as it is compiled, and in
ARCHITECTURE.errors what the compiler said.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

from kernels.common.architecture import Architecture
from roofcal.core.machine.cores import usable_cores
from tests.kernels.compile_case import Case
from tests.kernels.compile_cases import CASES

NVIDIA_TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
MATRIX_INSTRUCTIONS = ("wgmma.mma_async", "tcgen05.mma", "mma.sync", "v_mfma")


def compile_case(case: Case, architecture: Architecture) -> dict[str, Any]:
    """{"spills", "shared_bytes", "wide_accesses", ...}; raises what Triton or ptxas raises."""
    names = case.kernel.arg_names
    types = {name: case.signature.get(name, "constexpr") for name in names}
    # 16-byte alignment of pointers and sizes, as the just-in-time compiler would find it
    aligned = [i for i, n in enumerate(names) if types[n][0] in "*i" and n not in case.odd]
    source = (GluonASTSource if case.gluon else ASTSource)(
        case.kernel,
        signature=types,
        constexprs={(names.index(name),): value for name, value in case.constants.items()},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": case.num_warps}
    if case.num_stages is not None:
        options["num_stages"] = case.num_stages
    compiled = triton.compile(source, target=_target(architecture), options=options)
    if isinstance(architecture, str):
        assembly = compiled.asm["amdgcn"]
        report = _amd_report(assembly)
    else:
        assembly = compiled.asm["ptx"]
        report = _nvidia_report(assembly, compiled.asm["cubin"], architecture)
    return {
        "shared_bytes": int(compiled.metadata.shared),
        "matrix": [word for word in MATRIX_INSTRUCTIONS if word in assembly],
        "unwanted": [word for word in case.without if word in assembly],
        **report,
    }


def _target(architecture: Architecture) -> GPUTarget:
    if isinstance(architecture, str):
        return GPUTarget("hip", architecture, 64)
    return GPUTarget("cuda", architecture, 32)


def _amd_report(assembly: str) -> dict[str, int]:
    spills = re.search(r"\.vgpr_spill_count:\s*(\d+)", assembly)
    assert spills is not None, "the assembly states no spill count"
    wide = len(re.findall(r"(?:global|buffer)_(?:load|store)_(?:dwordx[24]|b(?:64|128))", assembly))
    return {"spills": int(spills.group(1)), "wide_accesses": wide}


def _nvidia_report(ptx: str, cubin: bytes, architecture: int) -> dict[str, int]:
    usage = _output_of("cuobjdump", "-res-usage", content=cubin)
    numbers = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert numbers is not None, f"cuobjdump states no usage: {usage}"
    registers, stack = map(int, numbers.groups())
    wide = len(re.findall(r"(?:ld|st)\.global\S*\.v4", ptx))
    # Spilled registers lie on the stack. Where there is one, ptxas says what it is for; to ask it
    # about every kernel would compile each of them twice.
    spills = _spilled_bytes(ptx, architecture) if stack else 0
    return {"spills": spills, "registers": registers, "wide_accesses": wide}


def _spilled_bytes(ptx: str, architecture: int) -> int:
    target = re.search(r"\.target\s+(\S+)", ptx)
    assert target is not None, "the PTX names no target"
    ptxas = "ptxas-blackwell" if architecture >= 100 else "ptxas"
    options = ("-v", f"--gpu-name={target.group(1)}", "-o", "/dev/null")
    log = _output_of(ptxas, *options, content=ptx.encode())
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert spills is not None, f"ptxas states no spills: {log}"
    return int(spills.group(1)) + int(spills.group(2))


def _output_of(tool: str, *options: str, content: bytes) -> str:
    """What a tool of NVIDIA's, of those that come with Triton, says of a file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        command = [str(NVIDIA_TOOLS / tool), *options, file.name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout + run.stderr


def main(folder: Path, cases_of_architectures: dict[str, list[str]]) -> None:
    """Compile for as many architectures at once as there are cores."""
    running = 0
    for name, cases in cases_of_architectures.items():
        if running == usable_cores():
            os.wait()
            running -= 1
        if os.fork() == 0:
            for stream, file in ((1, folder / name), (2, folder / f"{name}.errors")):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
            compile_cases(name if name.startswith("gfx") else int(name), cases)
            os._exit(0)
        running += 1
    for _ in range(running):
        os.wait()


def compile_cases(architecture: Architecture, cases: list[str]) -> None:
    """Print {"case", ...} per line; a case that does not compile has "error" instead."""
    for case in cases:
        try:
            report = compile_case(CASES[case], architecture)
        except Exception as error:  # noqa: BLE001 (Triton, LLVM and ptxas share no base; reported)
            report = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps({"case": case} | report), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.load(sys.stdin))
