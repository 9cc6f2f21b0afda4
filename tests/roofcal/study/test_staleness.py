"""Which files decide a stage: no fewer than Python really imports, and no other op's."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from roofcal.ops import BY_NAME, FOLDERS, OPS
from roofcal.study import staleness as sources
from roofcal.study.staleness import (
    NOT_DECIDING,
    OP_PARTS,
    ROOT,
    code_hash,
    measure_sources,
    plan_sources,
    source_lists,
    stage_sources,
)
from tests.forked import start_process
from tests.roofcal.study.real_imports import print_real_imports

NAMES = [op.name for op in OPS]
OF_FOLDERS = list({op.folder: op.name for op in OPS}.values())  # a probe has the bench of its op


def python(code: str, *arguments: str) -> str:
    """What a new interpreter prints that runs `code` in the checkout."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, '')\n{code}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(paths: tuple[Path, ...]) -> set[str]:
    return {path.as_posix() for path in paths}


def test_everything_that_measuring_an_op_imports_is_among_its_sources(tmp_path: Path) -> None:
    registry = {f"roofcal/ops/{f}/{file}.py" for f in FOLDERS for file in ("__init__", "spec")}
    # The spec of linear reads its recipes.
    registry |= {f"kernels/{name}.py" for name in ("__init__", "linear/__init__", "linear/recipes")}
    log = tmp_path / "log"
    process = start_process(print_real_imports, list(NOT_DECIDING), OF_FOLDERS, log=log)
    process.join()
    assert process.exitcode == 0, log.read_text()
    imported = dict(json.loads(line) for line in log.read_text().splitlines())
    assert imported.keys() == set(OF_FOLDERS)

    missing = {
        op: set(files) - names(measure_sources(op)) - set(NOT_DECIDING) - registry
        for op, files in imported.items()
    }

    assert {op: files for op, files in missing.items() if files} == {}, "editing it reruns nothing"


def test_the_sources_of_an_op_hold_no_bench_but_its_own_and_those_it_shares() -> None:
    shared = {
        "mixed_gemm": {"gemm"},
        "norm_linear_sigmoid": {"linear"},
        "transformer_block": {"linear"},
        "all_gather_matmul": {"gemm"},
    }
    for op in NAMES:
        held = names(measure_sources(op))
        benches = {f for f in FOLDERS if f"roofcal/ops/{f}/bench.py" in held}
        own = BY_NAME[op].folder
        assert benches == {own} | shared.get(own, set()), op


def test_a_source_measures_the_ops_again_whose_bench_imports_it() -> None:
    for source, ops in {
        "kernels/streams/memory.py": {"probe_copy"},
        "roofcal/ops/cast/bench.py": {"cast", "probe_cast"},
        "kernels/linear/ops.py": {"linear", "norm_linear_sigmoid", "transformer_block"},
        "roofcal/ops/gemm/model.py": set(),  # a model of time decides no measurement
    }.items():
        assert {op for op in NAMES if source in names(measure_sources(op))} == ops, source


def test_an_op_is_planned_by_its_own_spec_alone() -> None:
    specs = {path for path in names(plan_sources("cast")) if path.endswith("/spec.py")}
    assert specs == {"roofcal/ops/cast/spec.py", "roofcal/ops/spec.py"}
    assert [name for name in NOT_DECIDING if not (ROOT / name).is_file()] == []
    for ask in (measure_sources, plan_sources, stage_sources):
        with pytest.raises(KeyError):
            ask("no_such_name")


@pytest.mark.parametrize("stage", OP_PARTS)
def test_a_stage_is_decided_by_its_files_and_parts_of_ops_and_by_no_other_stage(stage: str) -> None:
    found = names(stage_sources(stage))
    own = {f"roofcal/{stage}.py"} if stage == "calibrate" else set()
    own |= {f"roofcal/{stage}/{file.name}" for file in (ROOT / "roofcal" / stage).glob("*.py")}
    parts = {f"roofcal/ops/{folder}/{part}.py" for folder in FOLDERS for part in OP_PARTS[stage]}
    assert own | {part for part in parts if (ROOT / part).is_file()} <= found
    others = {f"roofcal/{other}" for other in sources.STAGES if other != stage}
    assert not {file for file in found if "/".join(Path(file).with_suffix("").parts[:2]) in others}
    if stage != "compare":  # the rules of our kernels decide it, and no more of them
        inits = {name for name in found if name.endswith("__init__.py")}
        rules = {f"kernels/{family}/rule.py" for family in ("cast", "gemm", "int4")}
        of_kernels = {name for name in found - inits if name.startswith("kernels/")}
        assert of_kernels == rules | {"kernels/linear/recipes.py"}
    other = {"calibrate": "predict", "predict": "fit"}.get(stage)  # fits decide no predictions
    assert f"roofcal/ops/gemm/{other}.py" not in found


def test_asking_for_sources_and_runs_imports_neither_torch_nor_pandas() -> None:
    code = """
from roofcal.study import config, runs, staleness
[staleness.measure_sources(op) for op in sys.argv[1:]]
print([name for name in ("torch", "triton", "pandas", "numpy") if name in sys.modules])
"""
    assert python(code, *NAMES).strip() == "[]"


def test_what_a_source_says_is_its_hash_and_not_how_it_is_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    text = '"""Doc."""\ndef f(x):\n    """Doc."""\n    return x + 1\n'

    def hash_of(text: str, *paths: str) -> str:
        for path in ("a.py", "b.py", "page.html"):
            (tmp_path / path).write_text(text)
        return code_hash(map(Path, paths or ["a.py"]))

    before = hash_of(text)
    laid_out = "# new\ndef f(x):\n\n    'Other.'\n    return (x +\n        1)\n"
    assert hash_of(laid_out) == before
    for body in ("def f(x):\n    return x + 2\n", "def f(x):\n    x + 1\n", ""):
        assert hash_of(body) != before
    assert hash_of(text, "b.py") != before, "the name of a file counts"
    assert hash_of(text, "a.py", "b.py", "a.py") == hash_of(text, "b.py", "a.py")
    html = hash_of(text, "page.html")
    assert hash_of(laid_out, "page.html") != html, "of other files every byte counts"


def test_relative_and_nested_imports_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    files = {
        "roofcal/ops/cast/bench.py": "from . import inputs\ndef f():\n    import kernels.new\n",
        "roofcal/ops/cast/spec.py": "",
        "roofcal/ops/cast/inputs.py": "from ...core.dtypes import BITS\n",
        "roofcal/core/dtypes.py": "BITS = 8\n",
        "kernels/new.py": "import torch\nfrom kernels import configs\n",
        "kernels/configs.py": "",
        "kernels/other.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert names(measure_sources("cast")) == set(files) - {"kernels/other.py"}


def test_a_list_of_sources_is_written_again_only_when_a_source_changed(tmp_path: Path) -> None:
    lists = source_lists(["gemm"], tmp_path)
    assert set(lists) == {"plan_gemm", "measure_gemm", "calibrate", "predict", "compare", "report"}
    file = Path(lists["measure_gemm"])
    text = file.read_text()
    assert {line.split("  ")[1] for line in text.splitlines()} == names(measure_sources("gemm"))
    bench = "roofcal/ops/gemm/bench.py"
    assert f"{sha256((ROOT / bench).read_bytes()).hexdigest()}  {bench}\n" in text

    os.utime(file, (1, 1))
    source_lists(["gemm"], tmp_path)
    assert file.stat().st_mtime == 1

    file.write_text(text.replace(bench, "kernels/gone.py"))
    source_lists(["gemm"], tmp_path)
    assert file.read_text() == text


def test_a_source_that_is_no_python_stops_every_stage_until_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    monkeypatch.setattr(sources, "OP_PARTS", {"calibrate": ()})
    for name, text in (("roofcal/calibrate.py", "import kernels.b\n"), ("kernels/b.py", "")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)

    def listed() -> list[str]:
        """The files listed for the stage, as a new process finds them."""
        for function in (sources._digest, sources._imported_files, sources._module_files):
            function.cache_clear()
        text = Path(source_lists([], tmp_path / "sources")["calibrate"]).read_text()
        return [line.split("  ")[1] for line in text.splitlines()]

    assert listed() == ["kernels/b.py", "roofcal/calibrate.py"]
    (tmp_path / "kernels/b.py").write_text("from kernels import (\n")
    for _ in range(2):
        with pytest.raises(sources.SourcesError, match=r"kernels/b\.py:1"):
            listed()
    (tmp_path / "kernels/c.py").write_text("")
    (tmp_path / "kernels/b.py").write_text("from kernels import (\n    c,  # the other\n)\n")
    assert listed() == ["kernels/b.py", "kernels/c.py", "roofcal/calibrate.py"]
