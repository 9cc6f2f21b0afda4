"""tools/bootstrap.sh with a stand-in for Python: nothing is downloaded, installations are seen."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT

COMMANDS = "bash cat chmod cp dirname env grep head mkdir readlink rm sed sha256sum tail touch"
PYTORCH_ORG = "https://download.pytorch.org/whl/cpu"

STAND_IN = """#!/bin/bash
minor=${FAKE_VERSION#3.}
case "$*" in
    *python_version*) echo "$FAKE_VERSION" ;;
    *_base_executable*) echo "$0" ;;
    *version_info*) ((minor >= 11 && minor <= 12)) ;;
    *ensurepip*) exit "${FAKE_ENSUREPIP:-0}" ;;
    "-m venv --clear "*) rm -rf "$4" && mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
                         touch "$4/pyvenv.cfg" ;;
    tools/install.py*) echo "$*" >>installed.log
                       ! [[ -n "${FAKE_INSTALL_FAILS:-}" && "$*" =~ $FAKE_INSTALL_FAILS ]] ;;
    tools/check_environment.py*) ;;
    "-m roofcal "*) printf '%s\\n' "$0" "$PYTHONSAFEPATH" "$PYTHONPATH" "$@" ;;
    *) echo "unexpected: $*" >&2; exit 99 ;;
esac
"""

on_a_gpu_machine = Path("/proc/driver/nvidia/version").exists() or Path("/dev/kfd").exists()
needs_no_driver = pytest.mark.skipif(on_a_gpu_machine, reason="this machine has a GPU driver")


class Checkout:
    """A copy of what bootstrap.sh reads, and a PATH with the stand-in as its only Python."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.bin = folder / "bin"
        shutil.copytree(ROOT / "requirements", folder / "requirements")
        (folder / "tools").mkdir()
        shutil.copy2(ROOT / "tools/bootstrap.sh", folder / "tools")
        self.bin.mkdir()
        for command in COMMANDS.split():
            self.link(command)
        self.add_command("python3", STAND_IN)

    def link(self, command: str) -> None:
        found = shutil.which(command)
        assert found is not None
        (self.bin / command).symlink_to(found)

    def add_command(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "HOME": os.environ["HOME"], "FAKE_VERSION": "3.12"}
        return subprocess.run(
            ["tools/bootstrap.sh"],
            cwd=self.folder,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def install_calls(self) -> list[str]:
        log = self.folder / "installed.log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def stamp(self) -> Path:
        return self.folder / ".venv/roofcal.stamp"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_cpu_torch_comes_from_pips_own_sources_if_they_have_it(checkout: Checkout) -> None:
    done = checkout.run(TORCH="cpu")
    assert done.returncode == 0, done.stderr
    assert "ready: .venv" in done.stdout
    torch, lock = checkout.install_calls
    assert "-r requirements/lock.txt" in lock
    assert "-r requirements/torch-cpu.txt" in torch
    assert PYTORCH_ORG not in torch


def test_cpu_torch_comes_from_pytorch_org_otherwise_and_a_second_run_does_nothing(
    checkout: Checkout,
) -> None:
    assert checkout.run(TORCH="cpu", FAKE_INSTALL_FAILS="torch-cpu.txt$").returncode == 0
    assert checkout.install_calls[-2].endswith(f"torch-cpu.txt --extra-index-url {PYTORCH_ORG}")
    before = checkout.install_calls
    again = checkout.run(TORCH="cpu")
    assert (again.returncode, again.stdout, checkout.install_calls) == (0, "", before)
    with (checkout.folder / "requirements/lock.txt").open("a") as lock:
        lock.write("tomli==2.2.1\n")
    checkout.run(TORCH="cpu")
    assert len(checkout.install_calls) > len(before), "other pins, another environment"


def test_the_environment_has_a_command_that_runs_this_checkout_from_any_folder(
    tmp_path: Path,
) -> None:
    """One that was made before there was such a command gets it without a new installation."""
    checkout = Checkout(tmp_path / "a folder")
    checkout.run(TORCH="cpu")
    command = checkout.folder / ".venv/bin/roofcal"
    before = checkout.install_calls
    command.unlink()
    assert checkout.run(TORCH="cpu").returncode == 0
    assert checkout.install_calls == before

    environment = {"PATH": str(checkout.bin), "FAKE_VERSION": "3.12", "PYTHONPATH": "/mine"}
    called = subprocess.run(
        [command, "predict", "a  b"],
        cwd="/",
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    paths = f"{checkout.folder}:/mine"
    python = str(command.with_name("python"))
    assert called.stdout.splitlines() == [python, "1", paths, "-m", "roofcal", "predict", "a  b"]


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (
            {"FAKE_INSTALL_FAILS": "torch-cpu"},
            ["no CPU build of torch for Python 3.12", "PYTHON=python3.11", "VENV=none"],
        ),
        ({"TORCH": "cdua"}, ["TORCH=cdua: allowed are auto, cpu, cuda, cuda12, rocm"]),
        ({"FAKE_ENSUREPIP": "1"}, ["apt-get install python3-venv"]),
        (
            {"PYTHON": "python3", "FAKE_VERSION": "3.10"},
            ["PYTHON=python3 is 3.10: roofcal needs 3.11 or 3.12"],
        ),
        (
            {"FAKE_VERSION": "3.13"},
            ["no Python 3.11 or 3.12 found (python3 is 3.13)", "make ... PYTHON="],
        ),
    ],
)
def test_what_cannot_be_set_up_is_said_with_ways_out_and_taken_up_again(
    checkout: Checkout, variables: dict[str, str], says: list[str]
) -> None:
    done = checkout.run(**{"TORCH": "cpu"} | variables)
    assert done.returncode == 2
    for part in says:
        assert part in done.stderr
    assert not checkout.stamp.exists()
    assert checkout.run(TORCH="cpu").returncode == 0
    assert checkout.stamp.exists()


@needs_no_driver
@pytest.mark.parametrize(
    ("says", "build"),
    [
        ("echo 580.65.06; echo 580.65.06", "cuda"),
        ("echo 535.183.01", "cuda12"),
        ("echo 'NVIDIA-SMI has failed'; exit 9", "cpu"),
    ],
)
def test_the_nvidia_driver_decides_the_cuda_build(
    checkout: Checkout, says: str, build: str
) -> None:
    checkout.add_command("nvidia-smi", f"#!/bin/bash\n{says}\n")
    done = checkout.run()
    assert done.returncode == 0, done.stderr
    assert checkout.install_calls[0].endswith(f"-r requirements/torch-{build}.txt")


@needs_no_driver
def test_a_login_node_keeps_the_gpu_build_of_a_compute_node(checkout: Checkout) -> None:
    checkout.run(TORCH="cuda")
    before = checkout.install_calls
    assert checkout.run().returncode == 0
    assert checkout.install_calls == before


def test_a_folder_that_is_not_ours_is_left_alone(checkout: Checkout) -> None:
    """One that is no environment, and the environment of another checkout behind a link."""
    place, theirs = checkout.folder / ".venv", checkout.folder / "theirs"
    place.mkdir()
    done = checkout.run(TORCH="cpu")
    assert done.returncode == 2
    assert ".venv exists and is no virtual environment" in done.stderr
    place.rmdir()
    (theirs / "bin").mkdir(parents=True)
    (theirs / "pyvenv.cfg").touch()
    place.symlink_to(theirs)
    done = checkout.run()
    assert done.returncode == 2
    assert f".venv is a link to {theirs}" in done.stderr
    assert "VENV=none PYTHON=.venv/bin/python" in done.stderr
    assert (theirs / "pyvenv.cfg").exists()
