"""pyproject.toml, environment.yml, the pins and the imports of the code agree."""

import re
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import pytest
import yaml
from packaging.requirements import Requirement

from tests.architecture.tree import modules
from tests.paths import ROOT

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(PYPROJECT)["project"]
ANSWERING = [Requirement(line) for line in PROJECT["dependencies"]]
STUDY = [
    Requirement(line)
    for extra in ("measure", "report", "symbolic")
    for line in PROJECT["optional-dependencies"][extra]
]
RUNTIME = ANSWERING + STUDY
DEV = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"]]
# Optional: providers that refuse with the way out where the package is missing.
PEERS = [Requirement(line) for line in PROJECT["optional-dependencies"]["peers"]]

IMPORT_NAMES = {
    "pyyaml": "yaml",
    "nvidia-ml-py": "pynvml",
    "pytest-xdist": "xdist",
    "vl-convert-python": "vl_convert",
}

# Distributions that no module of ours imports: the file that runs them.
TOOLS = {
    "snakemake": "Makefile",
    "mypy": "Makefile",
    "ruff": "Makefile",
    "snakefmt": "Makefile",
    "import-linter": "pyproject.toml",
    "pytest-xdist": "Makefile",
    "tabulate": "roofcal/export/formats.py",
    "hatchling": "pyproject.toml",
    "ipykernel": "tools/run_notebooks.py",
}
# How the file of TOOLS spells it, where that is not the name of the distribution.
SPELLED = {
    "import-linter": "[tool.importlinter]",
    "pytest-xdist": "pytest -n $(TEST_PROCESSES)",
    "tabulate": ".to_markdown(",
}

# Imported, but not ours to require: comes with the CUDA build of torch, guarded by the code.
COMES_WITH_TORCH = {"cuda"}

# A peer to measure, of `dev` alone: without it its points are unsupported, with the reason.
OPTIONAL = {"torchao"}


def key(name: str) -> str:
    """The name of a distribution in its normal form: PyYAML and pyyaml are one."""
    return re.sub(r"[-_.]+", "-", name).lower()


def import_name(requirement: Requirement) -> str:
    return IMPORT_NAMES.get(key(requirement.name), key(requirement.name).replace("-", "_"))


@cache
def third_party(*folders: str) -> set[str]:
    """Packages imported below the folders; walking every syntax tree takes two seconds."""
    return {name for module in modules(*folders) for name in module.third_party()}


def pins(path: str) -> dict[str, str]:
    """Distribution -> exact version, of a requirements file or the pip part of environment.yml."""
    text = (ROOT / path).read_text(encoding="utf-8")
    found = re.findall(r"^(?:\s+- )?([\w.-]+)==([^\s#]+)", text, flags=re.MULTILINE)
    return {key(name): number for name, number in found}


def is_stub(name: str) -> bool:
    return name.startswith("types-") or name.endswith("-stubs")


def test_every_dependency_is_used() -> None:
    unused = []
    for requirement in RUNTIME + PEERS + DEV:
        name = key(requirement.name)
        if is_stub(name):
            base = name.removeprefix("types-").removesuffix("-stubs")
            is_used = base in {key(other.name) for other in RUNTIME + DEV}
        elif name in TOOLS:
            text = (ROOT / TOOLS[name]).read_text(encoding="utf-8")
            is_used = SPELLED.get(name, name) in text
        else:
            folders = ("roofcal", "kernels") if requirement not in DEV else ("tests", "tools")
            is_used = import_name(requirement) in third_party(*folders)
        unused += [] if is_used else [name]
    assert unused == []


def test_everything_imported_is_declared() -> None:
    declared = {import_name(requirement) for requirement in RUNTIME + PEERS} | COMES_WITH_TORCH
    assert third_party("roofcal", "kernels") - declared == OPTIONAL


def test_tests_import_nothing_undeclared() -> None:
    declared = {import_name(requirement) for requirement in RUNTIME + DEV} | COMES_WITH_TORCH
    declared |= {"packaging"}  # comes with pytest
    assert third_party("tests", "tools", "examples") - declared == set()


@pytest.mark.parametrize("path", ["pyproject.toml", "environment.yml"])
def test_every_dependency_says_why_it_is_there(path: str) -> None:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    peers = PEERS if path == "pyproject.toml" else []  # not installed unless asked for
    for requirement in RUNTIME + peers + DEV:
        stem = re.compile(rf'^\s*(- |"){re.escape(requirement.name)}[<>=]')
        matching = [line for line in lines if stem.match(line)]
        assert len(matching) == 1, f"{requirement.name} in {path}: {matching}"
        assert re.search(r"# \w.{5,}", matching[0]), f"{path} gives no reason: {matching[0]}"


def test_environment_yml_lists_the_same_dependencies() -> None:
    document = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (pip_part,) = (entry["pip"] for entry in document["dependencies"] if isinstance(entry, dict))
    listed = {key(Requirement(line).name) for line in pip_part}
    assert listed == {key(requirement.name) for requirement in RUNTIME + DEV}


def test_environment_yml_has_the_versions_of_the_lock() -> None:
    locked = pins("requirements/lock.txt") | pins("requirements/torch-cuda.txt")
    assert pins("environment.yml").items() <= locked.items()


@pytest.mark.parametrize("build", ["cpu", "cuda", "cuda12", "rocm"])
def test_the_pins_are_what_pyproject_asks_for(build: str) -> None:
    locked = pins("requirements/lock.txt") | pins(f"requirements/torch-{build}.txt")
    for requirement in RUNTIME + DEV:
        name = "triton-rocm" if (key(requirement.name), build) == ("triton", "rocm") else None
        number = locked[name or key(requirement.name)].partition("+")[0]
        assert requirement.specifier.contains(number), f"{requirement}: {number} is pinned"


def test_the_cpu_pin_cannot_fetch_the_cuda_build_of_pypi() -> None:
    """PyPI carries no version with a local label, so `+cpu` can only come from elsewhere."""
    assert pins("requirements/torch-cpu.txt")["torch"].endswith("+cpu")


def test_the_kernels_of_pypi_do_not_shadow_ours() -> None:
    with pytest.raises(PackageNotFoundError):
        version("kernels")


def test_the_site_is_built_from_pinned_packages() -> None:
    pinned = pins("requirements/docs.txt")
    configuration = (ROOT / "docs/conf.py").read_text("utf-8")
    for line in PROJECT["optional-dependencies"]["docs"]:
        requirement = Requirement(line)
        assert pinned[key(requirement.name)] in requirement.specifier, line
        assert key(requirement.name).replace("-", "_") in configuration, f"{line} is not used"
    assert pinned.keys().isdisjoint(pins("requirements/lock.txt"))
