"""The command line: real commands on small records, one message and exit code 2 for mistakes."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from roofcal.cli.main import COMMANDS, CRASHED, main
from tests.paths import ROOT
from tests.roofcal.calibrate.probe_runs import write_run

POINT = ["--device", "made-up", "--m", "16", "--n", "4096", "--k", "8192"]


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert "Traceback" not in message
    return message


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict"], "needs --device"),
        (["predict", "--device", "made-p"], "did you mean 'made-up'"),
        (["predict", "--device", "nvidia-b200"], "device 'nvidia-b200'. There are: made-up"),
        (
            ["predict", "--device", "made-up", "--op", "cast", "64x64"],
            "op cast needs --recipe, one of: fp8_tensorwise, fp8_rowwise_dim0",
        ),
        (
            [
                "predict",
                "--device",
                "made-up",
                "--op",
                "cast",
                "--recipe",
                "mxfp8_dim0",
                "64x64",
            ],
            "it knows casts mxfp8_dim0 by nobody there",
        ),
        (["predict", *POINT, "--op", "attention"], "linear, mixed_gemm, norm_linear_sigmoid"),
        (["predict", *POINT, "--recipe", "bf61"], "did you mean 'bf16'"),
        (["predict", *POINT, "--op", "gem"], "did you mean 'gemm'"),
        (["predict", "--device", "made-up", "--m", "4"], "op gemm needs --n --k"),
        (["predict", *POINT, "--model", "datasheet"], "config/devices/made-up.yaml"),
        (["predict", *POINT, "--model", "wave"], "there is no config/devices/made-up.yaml"),
        (["predict", "--device", "nvidia-h20", "--model", "wave"], "did you mean 'nvidia-h200'"),
        (["predict", "--device", "made-up", "--points", "no.csv"], "no.csv: cannot be read"),
        (["calibrate", "--run", "no", "--out", "x"], "no such records file"),
        (["export", "--device", "made-up", "--format", "cvs"], "did you mean 'csv'"),
        (["table", "--device", "nothing", "--op", "gemm"], "nothing"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in fails(capsys, *arguments)


def test_a_folder_that_cannot_be_written_is_named(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "file").write_text("in the way")
    run = write_run(checkout / "run")
    assert "file" in fails(capsys, "calibrate", "--run", str(run), "--out", "file/c.jsonl")


@pytest.mark.parametrize("command", ["health", "fleet", "compare"])
def test_a_fault_of_roofcal_is_no_verdict(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python's own exit code after a traceback is 1: a slower card, or a regression."""

    def crash(*_: object) -> None:
        raise RuntimeError("GPU is lost")

    for name in ("roofcal.study.discover.discover", "roofcal.health.comparison.read_fleet"):
        monkeypatch.setattr(name, crash)
    monkeypatch.setattr("roofcal.study.run_search.run_named", crash)
    folders = {"fleet": [str(tmp_path)], "compare": ["a", "b"]}.get(command, [])
    assert main([command, *folders]) == CRASHED
    assert "RuntimeError: GPU is lost" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word() -> None:
    """As in `claims | head -1`. The exit code is the one that a shell shows for `yes | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "roofcal", "claims", "--device", "nvidia-h200"],
        cwd=ROOT,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_it_runs_as_a_module() -> None:
    asked = [sys.executable, "-m", "roofcal", "--help"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for command in COMMANDS:
        assert command in said


def third_party_modules() -> set[str]:
    """Top-level names that roofcal imports, wherever in a file, and the standard library lacks."""
    trees = (ast.parse(file.read_text()) for file in (ROOT / "roofcal").rglob("*.py"))
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module and not n.level]
    modules = {name.partition(".")[0] for name in names}
    return modules - set(sys.stdlib_module_names) - {"roofcal", "kernels"}


def extras_of_distributions() -> dict[str, str]:
    """Distribution -> the extra of pyproject.toml that brings it, "" for roofcal's own needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"dev": [], **project["optional-dependencies"], "": project["dependencies"]}
    return {
        requirement.partition(">")[0].partition("=")[0]: extra
        for extra, requirements in groups.items()
        for requirement in requirements
    }


# Benches name the distribution themselves, and go on without it.
OPTIONAL_PROVIDERS = {"cuda", "gemlite", "torchao"}


@pytest.mark.parametrize("module", sorted(third_party_modules() - OPTIONAL_PROVIDERS))
def test_a_missing_module_leads_to_what_brings_it(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks_module(*_: object) -> int:
        raise ModuleNotFoundError(f"No module named '{module}.part'", name=f"{module}.part")

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("roofcal.cli.commands.Command.run", lacks_module)
    extras = extras_of_distributions()
    distributions = [name.lower() for name in packages_distributions()[module]]
    extra = next(extras[name] for name in distributions if name in extras)
    way_out = f".[{extra}]" if extra else "."

    assert main(["verify", "--quick"]) == 2

    message = f"error: this needs the module {module}: pip install '{way_out}'\n"
    assert capsys.readouterr().err == message
