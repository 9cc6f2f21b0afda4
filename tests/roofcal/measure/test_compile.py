"""What is compiled ahead of measuring, and what becomes of points that no compiler survives.

Processes are really forked; what they compile is for an H100 that this machine says it has.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

pytest.importorskip("triton")

from torch._inductor import async_compile
from torch._inductor.runtime import compile_tasks
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas_version
from triton.runtime.driver import driver

from roofcal.cli.main import main
from roofcal.core.jsonl import write_records
from roofcal.core.records import PlanPoint
from roofcal.measure import compile as compiling
from roofcal.measure import session
from roofcal.measure.compile import compile_points
from roofcal.ops.bench import compiled_for_one_shape
from tests.forked import start_process
from tests.paths import ROOT
from tests.roofcal.measure.runs import environment, rig
from tests.roofcal.measure.test_session_devices import GPU, card
from tests.waiting import wait_until

COMPILE_ONLY = compiling.compile_only
# Takes the clock of the host once the first point is begun, for longer than a point may take.
HOLDER = """
import os, sys, time
from pathlib import Path
import psutil
from roofcal.core.machine import locks
begun, go = map(Path, sys.argv[1:])
while not begun.exists() or not begun.read_text():
    time.sleep(0.01)
lock = locks.try_lock(locks.HOST_CLOCK)
time.sleep(0.5)
go.touch()
time.sleep(2)
print(psutil.Process(int(begun.read_text())).status())
"""


def cast(recipe: str = "fp8_tensorwise", provider: str = "triton", **changes: Any) -> PlanPoint:
    known: dict[str, Any] = {"device": "test-gpu", "shape": {"rows": 64, "cols": 128}}
    return PlanPoint(op="cast", recipe=recipe, provider=provider, **(known | changes))


def compile_for_an_h100() -> list[str]:
    """What compilers do first on a machine with an H100."""
    answers = {
        "is_available": True,
        "current_device": 0,
        "get_device_capability": (9, 0),
        "get_device_properties": SimpleNamespace(multi_processor_count=132),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, answer=answer: answer)
    return compile_by_its_driver()


def compile_by_its_driver() -> list[str]:
    stand_in = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        launcher_cls=lambda _source, _metadata: None,
    )
    driver.set_active(stand_in)
    return COMPILE_ONLY()


@pytest.fixture(autouse=True)
def _caches_and_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_folder(monkeypatch, tmp_path)


def use_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep caches and locks in a folder, and compile for an H100."""
    rig(monkeypatch, folder, measures_here=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "triton"))
    monkeypatch.setattr(session, "visible_gpus", lambda: [card()])
    monkeypatch.setattr(compiling, "compile_only", compile_for_an_h100)


def deeds(monkeypatch: pytest.MonkeyPatch, **by_recipe: Callable[[], Any]) -> None:
    """Compiling a point does what its recipe names, and nothing else."""

    def call(point: PlanPoint) -> None:
        by_recipe.get(point.recipe, lambda: None)()

    monkeypatch.setattr(compiling, "_call_on_fakes", call)


def refuse() -> None:
    raise ValueError("no such layout")


def reasons(points: list[PlanPoint], processes: int = 1) -> dict[str, str | None]:
    """Recipe -> why its point is not compiled."""
    recipe_of = {point.point_id: point.recipe for point in points}
    said = compile_points(points, processes)
    return {recipe_of[one["point"]]: one["reason"] for one in said}


def write_compiled(folder: Path) -> None:
    points = [cast(repeat=number) for number in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        use_folder(patch, folder)
        lines = [json.dumps(answer) for answer in compile_points(points, 2)]
    (folder / "said").write_text("\n".join(lines))


def test_kernels_lie_in_the_cache_once_whoever_compiles_them_and_none_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a new interpreter: Triton chooses to compile or interpret when a kernel is imported."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    process = start_process(write_compiled, tmp_path, log=tmp_path / "log", fork=False)
    process.join()
    assert process.exitcode == 0, (tmp_path / "log").read_text()
    answers = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    assert [said["reason"] for said in answers] == [None] * 4
    of_one = max(said["kernels"] for said in answers)  # a process names each of its kernels once
    assert len(list(tmp_path.glob("triton/*/*.cubin"))) == of_one > 0
    (source, *_) = (file.read_text() for file in tmp_path.glob("triton/*/*.ptx"))
    assert ".target sm_90a" in source


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_is_imported_before_the_fork_leaves_cuda_to_forked_compilers() -> None:
    script = (
        "import os, torch; from roofcal.measure import compile\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(torch.cuda._is_in_bad_fork())\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_point_costs_its_compiler_and_no_other_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(compiling, "LONGEST_S", 2.0)
    hang = partial(time.sleep, 600)
    deeds(monkeypatch, aborts=os.abort, killed=die, hangs=hang, refuses=refuse)
    names = ["aborts", "a", "hangs", "b", "killed", "refuses", "c"]
    others = psutil.Process().children()
    assert reasons([cast(name) for name in names]) == {
        "aborts": "the compiler died (signal SIGABRT)",
        "killed": "the compiler died (signal SIGKILL; the kernel sends it when memory runs out)",
        "hangs": "not compiled after 2 s",
        "refuses": "ValueError: no such layout",
        **dict.fromkeys("abc"),
    }
    assert psutil.Process().children() == others


def test_nothing_is_compiled_while_the_host_is_timed_and_no_time_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiling, "LONGEST_S", 2.0)
    begun, go = tmp_path / "begun", tmp_path / "go"

    def wait_for_go() -> None:
        begun.write_text(str(os.getpid()))
        while not go.exists():
            time.sleep(0.01)

    deeds(monkeypatch, slow=wait_for_go)
    command = [sys.executable, "-c", HOLDER, str(begun), str(go)]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert reasons([cast("slow"), cast("next")]) == {"slow": None, "next": None}
    assert holder.communicate()[0].strip() == psutil.STATUS_STOPPED


def test_backward_passes_are_compiled_with_their_forward_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the timing process compiles them, with the device idle, when they first run."""
    compiled: list[str] = []

    def compiler(name: str) -> Any:
        def compile_graph(graph: Any, _: Any) -> Any:
            compiled.append(name)
            return graph.forward

        return compile_graph

    def square(x: torch.Tensor) -> torch.Tensor:
        return x.sin().square()

    def call() -> None:
        backend = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"))
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
        compiled_for_one_shape(square)(torch.ones(3, requires_grad=True))
        raise ValueError(" ".join(sorted(compiled)))

    monkeypatch.setattr(compiling, "compile_only", compile_by_its_driver)
    deeds(monkeypatch, square=call)
    assert reasons([cast("square")]) == {"square": "ValueError: backward forward"}


@pytest.mark.parametrize("where", ["ahead", "timing", "after Inductor compiled"])
def test_torch_compile_alone_assembles_with_the_ptxas_of_torch(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a compiler and in the timing process alike: else that assembles each kernel again."""
    inductor = tmp_path / "torch/_inductor"
    for folder in (inductor, inductor.parent):  # torch 2.13 looks in the first, 2.11 in the other
        (folder / "bin").mkdir(parents=True)
        script = folder / "bin/ptxas"
        script.write_text("#!/bin/sh\necho Cuda compilation tools, release 99.0, V99.0.1\n")
        script.chmod(0o755)
    monkeypatch.setattr(compile_tasks, "__file__", str(inductor / "runtime/compile_tasks.py"))
    versions: list[str] = []

    def say_version(*_: Any, **__: Any) -> None:
        versions.append(get_ptxas_version(90))

    monkeypatch.setattr(CachingAutotuner, "precompile", say_version)

    def call() -> None:
        if where == "after Inductor compiled":
            async_compile._set_triton_ptxas_path()  # type: ignore[attr-defined]
        if where != "ahead":
            compiled_for_one_shape(torch.square)
        async_compile._set_triton_ptxas_path()  # type: ignore[attr-defined]
        say_version()
        CachingAutotuner.precompile(None)  # type: ignore[arg-type]
        say_version()
        names = ("torch" if "V99" in version else "Triton" for version in versions)
        raise ValueError(" ".join(names))

    deeds(monkeypatch, both=call)
    if where != "ahead":
        monkeypatch.setattr(compiling, "compile_only", list)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert reasons([cast("both")]) == {"both": "ValueError: Triton torch Triton"}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    write_records(tmp_path / "environment.jsonl", [environment(**GPU)])
    return [f"--plan={tmp_path}/plan.jsonl", f"--environment={tmp_path}/environment.jsonl"]


def test_points_of_libraries_and_of_several_devices_are_left_out(
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    deeds(monkeypatch, bad=refuse)
    plan = [cast("a"), cast("b", "torch_eager"), cast("c", world_size=2), cast("bad")]
    write_records(tmp_path / "plan.jsonl", plan)
    out = tmp_path / "compiled.jsonl"
    assert main(["compile", *files, "--processes", "2", "--out", str(out)]) == 0
    said = [json.loads(line) for line in out.read_text().splitlines()]
    assert {one["point"] for one in said} == {plan[0].point_id, plan[3].point_id}
    assert capfd.readouterr().out == f"{plan[3].point_id}: ValueError: no such layout\n"
    write_records(tmp_path / "environment.jsonl", [environment()])
    assert main(["compile", *files, "--out", str(out)]) == 0
    assert out.read_text() == "", "measuring a CPU takes all of its cores"


def test_nothing_is_left_of_a_job_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"

    def hang() -> None:
        begun.touch()
        time.sleep(600)

    deeds(monkeypatch, hangs=hang)
    if (parent := os.fork()) == 0:
        list(compile_points([cast("hangs")], 1))
    wait_until(begun.exists, "the compiler")
    (compiler,) = psutil.Process(parent).children()
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    wait_until(lambda: not compiler.is_running(), "the end of the compiler")
