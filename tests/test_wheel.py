"""The wheel: what it holds, and that it answers as the checkout does, without the extras."""

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofcal import api
from tests.architecture.test_dependencies import ANSWERING, DEV, PEERS, STUDY, import_name
from tests.paths import ROOT
from tests.test_docs import EXAMPLE, LEFT_OUT, PAGES

MOST_BYTES = 5_000_000
BUNDLED = "roofcal/bundled/"
POINT: dict[str, Any] = {"m": 4096, "n": 28672, "k": 8192}
# What `pip install roofcal` does not bring.
NOT_THERE = {import_name(r) for r in [*STUDY, *PEERS, *DEV]} - {import_name(r) for r in ANSWERING}
# It refuses `kernels` too, of which the wheel has copies: a package of that name is not ours.
BLOCK = f"""
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(NOT_THERE | {"kernels"})!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Refuse())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run([*build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_the_version_of_the_newest_release(wheel: Path) -> None:
    newest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert wheel.name.startswith(f"roofcal-{newest[1]}-")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], str(citation["date-released"])) == newest.groups()


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """A folder with the unpacked wheel, as site-packages has it."""
    folder = wheel.parent / "site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_installed(installed: Path, program: str, place: Path | None = None) -> str:
    """What a program prints that finds the wheel and none of the extras, far from the checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", BLOCK + program],  # -P: imports nothing from the folder
        cwd=place or installed.parent,
        env=environment | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def published_files() -> frozenset[str]:
    folder = ROOT / "reports/published"
    return frozenset(p.relative_to(ROOT).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_wheel_holds_what_answers_and_nothing_that_measures(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    code = {name for name in names if name.endswith(".py")}
    assert {"roofcal/api.py", "roofcal/py.typed"} <= set(names)
    carried = [f"{family}/rule.py" for family in ("cast", "gemm", "int4")] + ["linear/recipes.py"]
    assert [n for n in names if "/kernels/" in n] == [f"{BUNDLED}kernels/{n}" for n in carried]
    assert not [n for n in code if n.endswith("/bench.py") or n.startswith("roofcal/measure")]
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"roofcal"}


def test_the_wheel_carries_publications_without_samples_and_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if n.startswith(f"{BUNDLED}reports/")}
        carried = {name.removeprefix(BUNDLED) for name in names}
        for name in carried:
            assert archive.read(BUNDLED + name) == (ROOT / name).read_bytes(), name
    left_out = {n for n in published_files() - carried if n.count("/") > 3}
    assert carried <= published_files()
    records = re.compile("/(measurements|judged|cards)/")
    assert {Path(n).suffix for n in left_out if not records.search(n)} <= {".html", ".js"}
    assert any(n.endswith("calibration.jsonl") for n in carried)


def test_the_installed_package_answers_as_the_checkout_without_the_extras(installed: Path) -> None:
    program = f"""
import json, roofcal
advice = roofcal.advise("h200", **{POINT})
linear = roofcal.predict("h200", "linear", "fp8_axiswise", **{POINT})
frames = roofcal.load("h200")
print(json.dumps([advice.answer, linear.answer, len(frames.measurements), roofcal.__file__]))
"""
    advice, linear, points, file = json.loads(run_installed(installed, program))
    assert Path(file).is_relative_to(installed)
    assert advice == json.loads(json.dumps(api.advise("h200", **POINT).answer))
    assert linear == api.predict("h200", "linear", "fp8_axiswise", **POINT).answer
    assert points == len(api.load("h200").measurements)


def test_the_files_of_a_checkout_win_where_the_package_runs_in_one(installed: Path) -> None:
    """Importing it loads nothing heavy: it takes 0.03 s (`make bench`), numpy alone 0.1 s."""
    program = """
import roofcal
assert not {"numpy", "pandas", "scipy", "pydantic", "yaml"} & set(sys.modules)
from roofcal.core import paths
print(roofcal.__file__, paths.PUBLISHED, paths.DEVICES)
"""
    file, published, devices = run_installed(installed, program, ROOT).split()
    assert Path(file).is_relative_to(installed)
    assert (published, devices) == ("reports/published", "config/devices")
    _, published, devices = run_installed(installed, program).split()
    assert Path(published).is_relative_to(installed)
    assert Path(devices).is_relative_to(installed)


@pytest.mark.parametrize(
    "arguments",
    [
        ["llm", "--model", "llama3-8b", "--device", "h200"],
        ["breakeven", "--device", "h200", "--recipe", "rowwise", "--k", "4096", "--n", "4096"],
        ["export", "--device", "h200", "--format", "torchao"],
        ["--help"],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_commands_answer_from_the_wheel(installed: Path, arguments: list[str]) -> None:
    program = f"""
from roofcal.cli.main import main
try:
    code = main({arguments!r})
except SystemExit as error:
    code = error.code
sys.exit(code)
"""
    assert run_installed(installed, program)


def test_every_line_of_readme_that_asks_is_answered_from_the_wheel(installed: Path) -> None:
    readme = PAGES["README.md"]
    for command, shown in EXAMPLE.findall(readme):
        program = f"from roofcal.cli.main import main; main({shlex.split(command)})"
        said = run_installed(installed, program).splitlines()
        head, _, tail = shown.replace("\n    ", "\n").strip().partition(f"\n{LEFT_OUT}\n")
        assert said[: len(head.splitlines())] == head.splitlines()
        assert said[-len(tail.splitlines()) :] == tail.splitlines()
    lines = re.findall(r"^    (import roofcal$|roofcal\..*\).*)$", readme, re.MULTILINE)
    assert len(lines) == 3
    assert run_installed(installed, "\n".join([*lines, "print('done')"])) == "done\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("minor", [11, 12])
def test_the_wheel_installs_and_answers_in_a_fresh_environment(
    wheel: Path, minor: int, tmp_path: Path
) -> None:
    """Needs pip's package index; 20 s of CPU for each Python."""
    python = find_python(minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    programs = tmp_path / "venv/bin"
    subprocess.run([programs / "pip", "install", "--quiet", str(wheel)], check=True)
    have = subprocess.run(
        [programs / "pip", "list", "--format", "json"], check=True, capture_output=True
    ).stdout
    assert not {"torch", "triton", "snakemake"} & {p["name"] for p in json.loads(have)}
    command = [str(programs / "roofcal"), "advise", "--device", "h200", "--json"]
    command += [word for axis, size in POINT.items() for word in (f"--{axis}", str(size))]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    here = api.advise("h200", **POINT)
    assert json.loads(said)["options"][0]["recipe"] == here.best.recipe


def find_python(minor: int) -> str | None:
    """A Python 3.<minor> on the PATH or of pyenv; None where there is none."""
    if sys.version_info[:2] == (3, minor):
        return sys.executable
    candidates = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"))
    candidates += [Path(folder) / f"python3.{minor}" for folder in os.get_exec_path()]
    for candidate in filter(Path.is_file, candidates):  # a shim of pyenv is one that may not run
        if not subprocess.run([candidate, "-c", "import ensurepip"], check=False).returncode:
            return str(candidate)
    return None
