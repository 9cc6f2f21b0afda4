"""A cluster of eighteen nodes on this machine, and a study that is measured on it."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.campaign.one_op_study import StudyOfOneOp
from tests.paths import ROOT
from tests.waiting import wait_until

_CLUSTER: Final = ROOT / "tests/campaign/cluster.sh"
_PROGRAMS: Final = ("slurmctld", "slurmd", "sbatch", "munged")


def why_not_here() -> str | None:
    """What is missing for a SLURM of our own; None where all is there."""
    missing = [
        name for name in _PROGRAMS if shutil.which(name, path=f"{os.defpath}:/usr/sbin") is None
    ]
    if missing:
        return f"needs {', '.join(missing)}: apt-get install slurmctld slurmd slurm-client munge"
    if os.geteuid() != 0:
        return "needs root, who may start slurmctld and slurmd"
    if find_spec("snakemake_executor_plugin_slurm") is None:
        return "needs pip install --no-deps -r requirements/slurm.txt"
    return None


ON_SLURM: Final = [
    pytest.mark.slurm,
    pytest.mark.campaign,
    pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here())),
]


def cluster_folder(base: Path) -> Path:
    """The folder of the cluster; each process of a test run has a base of its own in one parent."""
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "slurm"


@contextmanager
def shared_cluster(folder: Path) -> Iterator[Path]:
    """A cluster that every test process shares: the first starts it, the last stops it.

    Args:
        folder: a folder that all processes of this test run name alike.

    Yields:
        The folder of the cluster.
    """
    folder.mkdir(exist_ok=True)
    users = folder / "users"
    _count(users, 1, lambda: _cluster("start", folder))
    try:
        yield folder
    finally:
        _count(users, -1, lambda: _cluster("stop", folder))


def _count(users: Path, change: int, act: Callable[[], None]) -> None:
    """Change the number of processes that use the cluster; act where it was or becomes zero."""
    with users.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = int(file.read() or 0)
        if 0 in (before, before + change):
            act()
        file.truncate(0)
        file.write(str(before + change))


def _cluster(command: str, folder: Path) -> None:
    with (folder / "cluster.log").open("ab") as log:
        subprocess.run(["bash", _CLUSTER, command, folder], check=True, stdout=log, stderr=log)


PARTITION: Final = f"cpu{int(os.environ.get('PYTEST_XDIST_WORKER', 'gw0')[2:]) % 8 + 1}"
"""The nodes of this test process: studies run beside each other, and one feels a lost node."""


class SlurmStudy(StudyOfOneOp):
    """The same through profiles/slurm, on the partition of this test process."""

    profile = (
        *("--workflow-profile", "profiles/slurm", "--latency-wait", "5"),
        *("--set-threads", "measure=1"),
        *("--default-resources", "mem_mb=500", f"slurm_partition={PARTITION}"),
    )
    name = "SLURM"

    def jobs(self) -> list[tuple[str, str]]:
        """(job id, node) of every job that is queued or runs on this partition."""
        command = ["squeue", "--noheader", "--partition", PARTITION, "--format=%i %N"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return [(line.split(" ")[0], line.partition(" ")[2]) for line in done.stdout.splitlines()]


def run_on_slurm(checkout: Path, partition: str, *arguments: str) -> None:
    """Run Snakemake in a checkout through profiles/slurm; fails with what it said."""
    command = [sys.executable, "-m", "snakemake", *arguments, "--workflow-profile"]
    command += ["profiles/slurm", "--latency-wait", "5", "--default-resources", "mem_mb=500"]
    done = subprocess.run(
        [*command, f"slurm_partition={partition}"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def kill_slurmd(folder: Path, node: str) -> None:
    """`kill -9` of the daemon of a node; its jobs live on, and the cluster calls the node lost."""
    os.kill(int((folder / f"run/slurmd.{node}.pid").read_text()), signal.SIGKILL)


def start_slurmd(node: str) -> None:
    """The daemon of a node again, and the node in use."""
    subprocess.run(["slurmd", "-N", node], check=True)
    wait_until(lambda: "idle" in node_state(node), f"node {node}")


def node_state(node: str) -> str:
    """What sinfo says of a node."""
    command = ["sinfo", "--noheader", "-N", "-n", node, "-o", "%T"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
