"""Which source files decide the output of a stage, and a hash of what they say.

Rules take lists of these hashes as inputs, so that editing one kernel measures one op again. Files
are found by the text of `import` statements: importing or parsing them takes seconds.
"""

import ast
import hashlib
import itertools
import os
import re
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Final

from roofcal.core.files import write_bytes
from roofcal.core.paths import CHECKOUT, RESULTS
from roofcal.ops import BY_NAME, FOLDERS

ROOT: Final = CHECKOUT
# Stage -> the modules and packages that it is made of; what these import is found in their text.
STAGES: Final[dict[str, tuple[str, ...]]] = {
    "plan": ("study/plan.py",),
    "measure": ("measure",),
    "calibrate": ("calibrate.py",),
    "predict": ("models", "ask"),
    "compare": ("compare",),
    "report": ("report",),
}
# Stage -> the modules of every op's folder that it loads by their names (load_part of
# roofcal.ops.constants), which no import statement shows.
OP_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "calibrate": ("spec", "model", "fit"),
    "predict": ("spec", "model"),
    "compare": ("spec",),
    "report": ("spec", "model"),
}
_SOURCES: Final = RESULTS / "sources"
_PACKAGES: Final = ("roofcal", "kernels")
# (origin, what is imported from it, "") or ("", "", modules) of an import statement.
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|.+)|import[ \t]+(.+))", re.MULTILINE
)
_DATA: Final = {"report": ("reports/templates", "reports/captions")}

# Imported while one op is planned or measured, but without influence on its numbers.
NOT_DECIDING: Final = {
    "roofcal/__init__.py": "names the package",
    "roofcal/ops/__init__.py": "lists the ops: a new op must not measure the others again",
    "roofcal/study/config.py": "what it says arrives as JSON in the parameters",
    "roofcal/study/schema.py": "as config.py: it checks values that the parameters hold in full",
    "roofcal/core/language_models.py": "as schema.py",
    "roofcal/core/timing_protocol.py": "as schema.py",
    "roofcal/core/yaml_files.py": "as config.py",
    "roofcal/core/records.py": "how results are written; schema_version guards what they mean",
    "roofcal/core/jsonl.py": "as records.py",
    "roofcal/core/names.py": "words messages",
    "roofcal/core/units.py": "words messages",
    "roofcal/core/files.py": "refuses files, and changes nothing of what it reads or writes",
    "roofcal/core/paths.py": "says where files lie, not what is measured",
    "roofcal/core/environments.py": "sorts and words names of environments",
    "roofcal/study/discover.py": "what it finds is the environment, a file of its own",
    "roofcal/core/devices.py": "datasheets are joined after measuring",
    "roofcal/measure/compile.py": "compiles ahead what the timing process would compile",
    "roofcal/measure/progress.py": "words the line beside the bar",
    "roofcal/ops/visit_times.py": "as progress.py",
    "roofcal/ops/regimes.py": "groups points in the report",
    "roofcal/study/staleness.py": "decides when to measure, not what is measured",
}


class SourcesError(ValueError):
    """A source file that is not Python; the message names file and line."""


def measure_sources(op: str) -> tuple[Path, ...]:
    """Files that decide the measurements of one op, relative to the checkout, sorted.

    The whole of roofcal/measure, the bench and spec of the op's folder, and what they import:
    kernels and files of other ops only where the op's own name them. Raises KeyError for an
    unknown op.
    """
    parts = [_folder(op) / name for name in ("bench.py", "spec.py")]
    return _closure([*_stage_files("measure"), *parts], skip=NOT_DECIDING)


def measure_hash(op: str) -> str:
    """The hash of the code that measures one op; raises as measure_sources and code_hash."""
    return code_hash(measure_sources(op))


def plan_sources(op: str) -> tuple[Path, ...]:
    """Files that decide which points one op measures."""
    return _closure([*_stage_files("plan"), _folder(op) / "spec.py"], skip=NOT_DECIDING)


def stage_sources(stage: str) -> tuple[Path, ...]:
    """Files of a whole stage and what they import, relative to the checkout, sorted.

    Among them are the parts of the listed ops that the stage loads by name. Raises KeyError for a
    stage that is not in STAGES.
    """
    if stage not in STAGES:
        raise KeyError(stage)
    parts = [
        ROOT / "roofcal" / "ops" / folder / f"{part}.py"
        for folder in FOLDERS
        for part in OP_PARTS.get(stage, ())
    ]
    roots = [*_stage_files(stage), *(part for part in parts if part.is_file())]
    return _closure(roots, skip=("roofcal/__init__.py",))


def code_hash(paths: Iterable[Path]) -> str:
    """SHA-256 (hex) of the syntax trees of files, without docstrings; other files by their bytes.

    Comments, docstrings and layout do not change it; it is comparable within one Python version,
    as a measuring environment is. Relative paths are taken from the checkout. Raises SourcesError
    for a syntax error.
    """
    digest = hashlib.sha256()
    for path in sorted(set(paths)):
        digest.update(f"{path.as_posix()}\0".encode())
        if path.suffix != ".py":
            digest.update((ROOT / path).read_bytes())
            continue
        tree = _parsed(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                match node.body:
                    case [ast.Expr(value=ast.Constant(value=str())), *rest]:
                        node.body = rest  # without its docstring
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def source_files(ops: Collection[str], folder: Path = _SOURCES) -> dict[str, str]:
    """Stage -> the path that source_lists writes, for a job: who started it wrote the files."""
    stages = [*(f"plan_{op}" for op in ops), *(f"measure_{op}" for op in ops), *OP_PARTS]
    return {stage: str(folder / f"{stage}.sha256") for stage in stages}


def source_lists(ops: Collection[str], folder: Path = _SOURCES) -> dict[str, str]:
    """Stage -> path of a file with the SHA-256 of its sources, as `sha256sum` prints them.

    Stages are plan_<op> and measure_<op> of every op, and those of OP_PARTS. One file stands for
    hundreds of inputs of a rule. It is written only where its content changed, so that its date
    says when a source last did, whatever a git checkout does to theirs. Raises SourcesError where a
    source that changed is not Python.
    """
    sources = {f"plan_{op}": plan_sources(op) for op in ops}
    sources |= {f"measure_{op}": measure_sources(op) for op in ops}
    sources |= {stage: stage_sources(stage) for stage in OP_PARTS}
    files = source_files(ops, folder)
    changed: dict[Path, str] = {}
    edited: set[Path] = set()
    for stage, paths in sources.items():
        file = Path(files[stage])
        before = file.read_text() if file.is_file() else ""
        lines = {path: f"{_digest(ROOT / path)}  {path.as_posix()}\n" for path in paths}
        if (content := "".join(lines.values())) != before:
            changed[file] = content
            lines_before = set(before.splitlines(keepends=True))
            edited |= {path for path, line in lines.items() if line not in lines_before}
    for path in sorted(edited):
        if path.suffix == ".py":
            _parsed(path)
    for file, content in changed.items():
        write_bytes(file, content.encode())
    return files


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _stage_files(stage: str) -> list[Path]:
    """The stage's modules, every file below its packages, and its data files."""
    roots = [ROOT / "roofcal" / name for name in STAGES[stage]]
    roots += [ROOT / data for data in _DATA.get(stage, ())]
    below = [
        file
        for root in roots
        for file in root.rglob("*")
        if file.is_file()
        and not any(p == "__pycache__" or p[0] == "." for p in file.relative_to(ROOT).parts)
    ]
    return [*(root for root in roots if root.is_file()), *below]


def _folder(op: str) -> Path:
    return ROOT / "roofcal" / "ops" / BY_NAME[op].folder


def _closure(roots: Iterable[Path], skip: Collection[str]) -> tuple[Path, ...]:
    """`roots` and all they import from this checkout, except through the files of `skip`."""
    skipped = {ROOT / name for name in skip}
    queue, closure = list(roots), set[Path]()
    while queue:
        file = queue.pop()
        if file in closure or file in skipped:
            continue
        closure.add(file)
        if file.suffix == ".py":
            queue += _imported_files(file, ROOT)
    return tuple(sorted(file.relative_to(ROOT) for file in closure))


@cache
def _imported_files(file: Path, root: Path) -> tuple[Path, ...]:
    """Files of this checkout that importing a file runs before it, each once."""
    package = file.relative_to(root).parent.parts
    names: dict[str, None] = {}  # dotted; `from a import b` gives both a and a.b
    for origin, members, modules in _IMPORT.findall(file.read_text(encoding="utf-8")):
        names |= dict.fromkeys(re.findall(r"[\w.]+", modules))
        if origin:
            relative = origin.lstrip(".")
            level = len(origin) - len(relative)
            above = package[: len(package) - level + 1] if level else ()
            module = ".".join([*above, *filter(None, [relative])])
            names |= dict.fromkeys(
                [module, *(f"{module}.{m}" for m in re.findall(r"\w+", members))]
            )
    ours = [name for name in names if name.split(".")[0] in _PACKAGES]
    return tuple(dict.fromkeys(path for name in ours for path in _module_files(name, root)))


def _parsed(path: Path) -> ast.Module:
    """The syntax tree of a file of the checkout."""
    try:
        return ast.parse((ROOT / path).read_bytes(), filename=str(path))
    except SyntaxError as error:
        where = f"{path}:{error.lineno}"
        raise SourcesError(f"{where}: {error.msg}; nothing runs before it is mended") from None


@cache
def _module_files(name: str, root: Path) -> tuple[Path, ...]:
    """Files of a checkout that importing a dotted name runs: its packages and the module."""
    # by strings: paths of 1,100 names would take a quarter of a second of every dry run
    bases = itertools.accumulate(name.split("."), os.path.join, initial=str(root))
    files = [base + end for base in list(bases)[1:] for end in ("/__init__.py", ".py")]
    return tuple(Path(file) for file in files if os.path.isfile(file))  # noqa: PTH113
