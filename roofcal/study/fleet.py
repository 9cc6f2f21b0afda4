"""The nodes of a fleet, a job each, and how many cards a job holds."""

import shutil
import socket
import subprocess
from collections.abc import Sequence

from roofcal.core.names import is_name


class FleetError(ValueError):
    """Nodes that cannot be named; the message says which, and the way out."""


def fleet_nodes(entries: Sequence[str]) -> list[str]:
    """The nodes that `fleet_nodes` of config/config.yaml names, each once; this machine for none.

    SLURM itself expands n[01-16], because its rules are its own. Raises FleetError where it is not
    here, refuses an entry, or where a node has no name that a folder can have.
    """
    if not entries:
        return [socket.gethostname()]
    nodes: list[str] = []
    for entry in entries:
        nodes += _expanded(entry) if set("[,") & set(entry) else [entry]
    bad = [node for node in nodes if not is_name(node)]
    if bad:
        raise FleetError(
            f"config/config.yaml: fleet_nodes: {bad[0]!r} is no name of a node: it becomes a "
            "folder, with letters, digits and . _ + - alone"
        )
    return list(dict.fromkeys(nodes))


def _expanded(entry: str) -> list[str]:
    where = f"config/config.yaml: fleet_nodes: {entry!r}"
    if shutil.which("scontrol") is None:
        raise FleetError(f"{where}: scontrol, which expands it, is not here; list every node")
    command = ["scontrol", "show", "hostnames", entry]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or not done.stdout.split():
        raise FleetError(f"{where}: scontrol: {done.stderr.strip() or 'names no node'}")
    return done.stdout.split()
