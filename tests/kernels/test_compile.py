"""Every kernel compiles for every architecture: no spills, shared memory within the limit."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kernels.common.architecture import (
    ARCHITECTURES,
    SHARED_MEMORY_LIMIT,
    WITHOUT_E4M3,
    WITHOUT_TENSOR_MEMORY_UNIT,
    Architecture,
)
from tests.exhaustive import thinned
from tests.kernels.compile_cases import CASES
from tests.made_once import make_once
from tests.paths import ROOT

# Of Hopper and Blackwell the ones for whole warpgroups: mma.sync would run at half their rate.
FASTEST_INSTRUCTION: dict[Architecture, str] = {
    **dict.fromkeys((80, 89, 120), "mma.sync"),
    90: "wgmma.mma_async",
    100: "tcgen05.mma",
    **dict.fromkeys(("gfx942", "gfx950"), "v_mfma"),
}
# Architectures of which `make test` compiles a kernel for one, in turn.
IN_TURN: tuple[Architecture, ...] = (80, 89, "gfx942", 100, 120, "gfx950")
MOST_CASES = 6  # of a kernel and an architecture that `make test` compiles
Reports = dict[str, dict[str, Any]]  # of each case; those behind one that crashes are missing
Point = tuple[Architecture, str]


def named(*words: str) -> str:
    """The first case with all these words in its name."""
    return next(name for name in CASES if all(word in name for word in words))


LACKING: tuple[Point, ...] = (
    *((arch, named("tensorwise", "bfloat16-e4m3fn _cast_kernel")) for arch in WITHOUT_E4M3),
    *((arch, "gemm_fast_128x128x64_axiswise") for arch in WITHOUT_E4M3),
    *((arch, "gemm_pingpong_axiswise") for arch in (89, 100, 120)),
    *(
        (arch, named("rowwise_dim1", "bfloat16-e5m2 _transpose_kernel 90"))
        for arch in WITHOUT_TENSOR_MEMORY_UNIT
    ),
)
Kernel = tuple[str, bool]  # its name, and whether it is written in Gluon


@cache
def kernels_of(architecture: Architecture) -> tuple[Kernel, ...]:
    """The kernels that have cases on an architecture, in the order of the cases."""
    cases = [case for case in CASES.values() if architecture in case.architectures]
    return tuple(dict.fromkeys((case.kernel.__name__, case.gluon) for case in cases))


def turn_of(kernel: Kernel) -> int:
    """Its number among all kernels."""
    return list(dict.fromkeys((c.kernel.__name__, c.gluon) for c in CASES.values())).index(kernel)


def points() -> Iterator[Any]:
    """Every case on its architectures; `make test` compiles one in 32 of each kernel, at most six.

    On each architecture another one: a kernel may have hundreds of cases, of half a second to one
    and a half each. On Hopper it compiles every kernel. Of the other architectures it takes one per
    kernel in turn.
    """
    for number, architecture in enumerate(ARCHITECTURES):
        cases_of_kernels: dict[Kernel, list[Point]] = defaultdict(list)
        for name, case in CASES.items():
            if architecture in case.architectures:
                kernel = (case.kernel.__name__, case.gluon)
                cases_of_kernels[kernel].append((architecture, name))
        takers = IN_TURN if architecture in IN_TURN else (architecture,)
        for kernel, cases in cases_of_kernels.items():
            first = number % len(cases)
            order = cases[first:] + cases[:first]
            able = [taker for taker in takers if kernel in kernels_of(taker)]
            is_own_turn = able[turn_of(kernel) % len(able)] == architecture
            every = max(32, -(-len(cases) // MOST_CASES))
            yield from thinned(order, every=every, first=0 if is_own_turn else len(cases))


@pytest.fixture(scope="session")
def compiled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Architecture], tuple[Reports, str]]:
    """Compiles all selected cases; of an architecture, (reports, what the compiler said)."""
    items = [item for item in request.session.items if item.path == Path(__file__)]
    selected = [item.callspec.params for item in items if isinstance(item, pytest.Function)]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}

    def compile_all(folder: Path) -> None:
        # Cases that must not compile stand last: should one of them crash, it crashes no other.
        selected.sort(key=lambda point: (point["architecture"], point["case"]) in LACKING)
        cases: dict[str, list[str]] = defaultdict(list)
        for point in selected:
            cases[str(point["architecture"])].append(str(point["case"]))
        command = [sys.executable, "-m", "tests.kernels.compile_ahead", str(folder)]
        text = json.dumps(cases)
        subprocess.run(command, input=text, text=True, cwd=ROOT, env=environment, check=True)

    @cache
    def of(architecture: Architecture) -> tuple[Reports, str]:
        folder = make_once(tmp_path_factory, "compiled-kernels", compile_all)
        lines = (folder / str(architecture)).read_text().splitlines()
        reports = {report["case"]: report for report in map(json.loads, lines)}
        return reports, (folder / f"{architecture}.errors").read_text()[-2000:]

    return of


@pytest.mark.parametrize(("architecture", "case"), list(points()))
def test_it_fits_and_does_not_spill(
    compiled: Callable[[Architecture], tuple[Reports, str]], architecture: Architecture, case: str
) -> None:
    reports, errors = compiled(architecture)
    assert case in reports, (
        f"{case} on {architecture} crashed the compiler, or one before it: {errors}"
    )
    report = reports[case]
    assert "error" not in report, report
    assert report["spills"] == 0
    assert report["shared_bytes"] <= SHARED_MEMORY_LIMIT[architecture]
    assert report["unwanted"] == []
    if CASES[case].matrix == "fastest":
        assert report["matrix"] == [FASTEST_INSTRUCTION[architecture]]
    elif CASES[case].matrix:
        assert report["matrix"] != []
    if CASES[case].wide:
        assert report["wide_accesses"] > 0, "it must move 16 bytes per thread and access"


@pytest.mark.parametrize(("architecture", "case"), LACKING)
def test_what_an_architecture_is_said_to_lack_does_not_compile(
    compiled: Callable[[Architecture], tuple[Reports, str]], architecture: Architecture, case: str
) -> None:
    reports, errors = compiled(architecture)
    assert "error" in reports.get(case, {"error": errors})
