"""Sizes and names of files, and that the tests mirror the code."""

from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, Module, lines_of, modules

MAX_FUNCTION_LINES = 50
MAX_FILE_LINES = 400
NAMELESS = {"utils", "util", "helpers", "helper", "misc", "common", "tools"}

CODE = modules("roofcal", "kernels")
ALL = modules("roofcal", "kernels", "tests", "tools")

# Modules with functions and no test file of their own, each with the reason.
WITHOUT_TEST: dict[str, str] = {
    "roofcal/__main__.py": "calls roofcal.cli.main, nothing else; the tests of the CLI run it",
}


def mirror(module: Module) -> Path:
    """roofcal/ops/spec.py -> tests/roofcal/ops/test_spec.py; x/__init__.py -> tests/test_x.py."""
    path = module.path
    if path.stem == "__init__":
        return Path("tests", *path.parent.parts[:-1], f"test_{path.parent.name}.py")
    return Path("tests") / path.with_name(f"test_{path.name}")


def has_functions(module: Module) -> bool:
    return next(module.functions(), None) is not None


@pytest.mark.parametrize("module", [m for m in CODE if has_functions(m)], ids=lambda m: m.name)
def test_a_module_with_functions_has_a_test_file_of_its_own(module: Module) -> None:
    if str(module.path) not in WITHOUT_TEST:
        assert (ROOT / mirror(module)).is_file(), f"{mirror(module)} is missing"


@pytest.mark.parametrize("path", WITHOUT_TEST)
def test_an_exception_from_the_mirror_is_still_needed(path: str) -> None:
    assert (ROOT / path).is_file(), "the module is gone: remove it from WITHOUT_TEST"
    assert not (ROOT / mirror(Module(Path(path)))).exists(), "it has a test: remove the exception"


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [str(m.path) for m in ALL if m.path.stem.removeprefix("test_") in NAMELESS] == []


def test_no_file_is_longer_than_400_lines() -> None:
    long = {str(m.path): n for m in ALL if (n := len(m.text.splitlines())) > MAX_FILE_LINES}
    assert long == {}


def test_no_function_is_longer_than_50_lines() -> None:
    long = {
        f"{module.path}:{function.lineno} {function.name}": lines_of(function)
        for module in ALL
        for function in module.functions()
        if lines_of(function) > MAX_FUNCTION_LINES
    }
    assert long == {}


def test_a_docstring_does_not_count_towards_the_length_of_a_function(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text('def f() -> int:\n    """One.\n\n    Two.\n    """\n    return 1\n')
    (function,) = Module(path).functions()
    assert lines_of(function) == 2
