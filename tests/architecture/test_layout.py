"""Names of files, sizes of folders, and that every package has tests."""

from collections import Counter
from pathlib import Path

from tests.architecture.tree import Module, modules
from tests.paths import ROOT

MOST_FILES_IN_A_FOLDER = 20
MOST_ENTRIES_AT_THE_TOP = 20  # judge came as the last: compare and health will be one room
NAMELESS = {"utils", "util", "helpers", "helper", "misc", "tools"}

CODE = modules("roofcal", "kernels")
ALL = modules("roofcal", "kernels", "tests", "tools", "examples")


def has_functions(module: Module) -> bool:
    return next(module.functions(), None) is not None


def has_tests(package: Path) -> bool:
    folder = ROOT / "tests" / package
    if package.parent.name == "sections":  # those of one kind of question are tested together
        folder = folder.parent
    # A single module at the top of a package may be tested beside the package's other tests.
    beside = folder.parent / f"test_{package.name}.py"
    return beside.is_file() or any(folder.glob("test_*.py"))


def test_a_package_with_functions_has_tests_in_the_same_folder_below_tests() -> None:
    packages = {module.path.parent for module in CODE if has_functions(module)}
    assert len(packages) > 50
    assert [str(package) for package in sorted(packages) if not has_tests(package)] == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [str(m.path) for m in ALL if m.path.stem.removeprefix("test_") in NAMELESS] == []


def test_no_folder_holds_more_than_20_modules() -> None:
    count = Counter(module.path.parent for module in CODE)
    assert {str(f): n for f, n in count.items() if n > MOST_FILES_IN_A_FOLDER} == {}


def test_the_package_has_at_most_20_entries() -> None:
    entries = [e for e in (ROOT / "roofcal").iterdir() if e.suffix == ".py" or e.is_dir()]
    rooms = [entry.name for entry in entries if entry.name != "__pycache__"]
    assert len(rooms) <= MOST_ENTRIES_AT_THE_TOP, sorted(rooms)
