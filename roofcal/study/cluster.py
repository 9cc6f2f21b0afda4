"""A study on a SLURM cluster: whether its profile fits, nodes of a fleet, the jobs of an op.

A job that asks for more cores, memory or GPUs than any node of its partition has is not refused:
it waits, and Snakemake says nothing for minutes. `sinfo` knows better.
"""

import importlib.util
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.core.jsonl import read_records, read_single_record, write_records
from roofcal.core.names import is_name
from roofcal.core.paths import RESULTS, RunFolder
from roofcal.core.records import Environment, Measurement, PlanPoint, Session
from roofcal.core.units import MEGA, format_bytes
from roofcal.core.yaml_files import ConfigError, read_yaml
from roofcal.study.config import Study
from roofcal.study.runs import planned_run

_PLUGIN: Final = "snakemake_executor_plugin_slurm"
_INSTALL: Final = "python -m pip install --no-deps -r requirements/slurm.txt"
_ASK_S: Final = 60.0
_FIELDS: Final = "%P|%N|%c|%m|%G|%t"
_GPUS: Final = re.compile(r"gpu:(?:[^:,()]+:)?(\d+)")
_LOST: Final = ("down", "drain", "drng", "fail", "unk", "inval")


class ClusterError(ValueError):
    """A profile, a cluster, nodes or results of jobs that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """What sinfo says of a node in a partition. A default partition ends in *."""

    partition: str
    name: str
    cores: int
    memory_bytes: float
    gpus: int
    is_up: bool


def cluster_nodes() -> list[Node]:
    """Every node of every partition; raises ClusterError where SLURM does not answer."""
    if shutil.which("sinfo") is None:
        raise ClusterError("sinfo: not found; run this on a login node of the cluster")
    command = ["sinfo", "--noheader", "--Node", f"--format={_FIELDS}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_S)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"sinfo: no answer for {_ASK_S:g} s; is slurmctld up?") from None
    if done.returncode:
        raise ClusterError(f"sinfo: {done.stderr.strip() or 'failed'}")
    return parse_nodes(done.stdout)


def parse_nodes(text: str) -> list[Node]:
    """The nodes in the output of sinfo with the format of `cluster_nodes`."""
    nodes = []
    for line in text.splitlines():
        partition, name, cores, memory, gres, state = line.strip().split("|")
        gpus = sum(map(int, _GPUS.findall(gres)))
        is_up = not state.rstrip("*").startswith(_LOST) and not state.endswith("*")
        size = int(memory.rstrip("+")) * MEGA
        nodes.append(Node(partition, name, int(cores.rstrip("+")), size, gpus, is_up))
    return nodes


def preflight(profile: Path, study: Study, nodes: Sequence[Node]) -> Iterator[tuple[str, bool]]:
    """(line, whether it is a problem) on everything that a study with this profile needs.

    profile: a folder such as profiles/slurm. Raises ConfigError for a bad config.yaml in it.
    """
    errors: list[str] = []
    content = read_yaml(profile / "config.yaml", errors)
    if errors:
        raise ConfigError("\n".join(errors))
    if importlib.util.find_spec(_PLUGIN) is None:
        yield f"plugin: {_PLUGIN} is missing; {_INSTALL}", True
    of_rule = _mapping(_mapping(content, "set-resources"), "measure")
    resources = _mapping(content, "default-resources") | of_rule
    name = resources.get("slurm_partition")
    default = [node for node in nodes if name is None and node.partition.endswith("*")]
    of_partition = default or [n for n in nodes if n.partition.rstrip("*") == str(name)]
    if not of_partition:
        names = ", ".join(sorted({node.partition.rstrip("*") for node in nodes})) or "none"
        named = resources.get("slurm_partition", "(no default)")
        yield f"partition {named}: not there; partitions are {names}", True
        return
    up = [node for node in of_partition if node.is_up]
    partition = of_partition[0].partition.rstrip("*")
    yield f"partition {partition}: {len(up)} of {len(of_partition)} nodes in use", not up
    threads, memory = _largest_job(study)
    threads = int(_mapping(content, "set-threads").get("measure") or threads)
    memory_bytes = MEGA * int(of_rule.get("mem_mb", memory))
    cores = max(node.cores for node in of_partition)
    largest = max(node.memory_bytes for node in of_partition)
    of_memory = f"{format_bytes(memory_bytes)} of memory"
    for what, most, is_enough in (
        (f"{threads} cores", f"{cores}", threads <= cores),
        (of_memory, format_bytes(largest), memory_bytes <= largest),
    ):
        fits = ": fits" if is_enough else f", no node of the partition has more than {most}"
        yield f"a job asks for {what}{fits}", not is_enough
    yield from _device_lines(study, threads, max(node.gpus for node in of_partition))


def _largest_job(study: Study) -> tuple[int, int]:
    """(cores, MB of memory) of the job of a listed and recorded device that asks for most."""
    cores, memory = [1], [study.file.measuring_memory_mb]
    for name in study.file.devices if study.file.devices != "auto" else ():
        folder = RunFolder.at(RESULTS / name)
        if folder.environment_file.is_file():
            environment = read_single_record(folder.environment_file, Environment)
            run = planned_run(study, folder.folder, environment, 0)
            gpus = max((n for op in run.ops for n in run.world_sizes_by_job(op)), default=0)
            cores.append(run.cores(gpus))
            memory.append(run.memory_mb(gpus))
    return max(cores), max(memory)


def _device_lines(study: Study, threads: int, gpus: int) -> Iterator[tuple[str, bool]]:
    """Whether the devices to measure are listed, recorded, and those of the nodes."""
    if study.file.devices == "auto":
        yield f"config/config.yaml: devices is auto, which is this login node; {_LIST}", True
        return
    for name in study.file.devices:
        file = RunFolder.at(RESULTS / name).environment_file
        if not file.is_file():
            yield f"{file}: not there; {_LIST}", True
            continue
        environment = read_single_record(file, Environment)
        if environment.vendor == "cpu" and gpus:
            yield f"{name}: a CPU on a partition with GPUs: its node has no driver?", True
        elif environment.vendor == "cpu" and environment.threads != threads:
            yield (
                f"{name}: has {environment.threads} threads, set-threads gives {threads}: the job "
                "would be another environment; leave set-threads out",
                True,
            )
        elif environment.vendor != "cpu" and study.file.gpus_per_node > gpus:
            yield (
                f"config/config.yaml: gpus_per_node is {study.file.gpus_per_node}, the largest "
                f"node has {gpus}",
                True,
            )
        else:
            yield f"{name}: recorded", False


_LIST: Final = (
    "on a node of the device run `srun ... roofcal doctor --write-environment results`, "
    "and list what it prints as <device>/<environment_id>"
)


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A mapping of a profile; {} where all of it is commented out."""
    value = content.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def fleet_nodes(entries: Sequence[str]) -> list[str]:
    """The distinct nodes that `fleet_nodes` of config/config.yaml names, by default this machine.

    SLURM itself expands n[01-16], because its rules are its own. Raises ClusterError where it is
    not here, refuses an entry, or where a node has no name that a folder can have.
    """
    if not entries:
        return [socket.gethostname()]
    nodes: list[str] = []
    for entry in entries:
        if not set("[,") & set(entry):
            nodes.append(entry)
            continue
        where = f"config/config.yaml: fleet_nodes: {entry!r}"
        if shutil.which("scontrol") is None:
            raise ClusterError(f"{where}: scontrol, which expands it, is not here; list every node")
        command = ["scontrol", "show", "hostnames", entry]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode or not done.stdout.split():
            raise ClusterError(f"{where}: scontrol: {done.stderr.strip() or 'names no node'}")
        nodes += done.stdout.split()
    bad = [node for node in nodes if not is_name(node)]
    if bad:
        raise ClusterError(
            f"config/config.yaml: fleet_nodes: {bad[0]!r} is no name of a node: it becomes a "
            "folder, with letters, digits and . _ + - alone"
        )
    return list(dict.fromkeys(nodes))


def join_measurements(plan: Path, parts: Sequence[Path], out: Path) -> None:
    """Write the results of jobs that shared out a plan as one job would have: sessions, then rows.

    Rows are in the order of the plan. Raises ClusterError for points without a row, RecordsError
    for bad files, OSError where `out` cannot be written.
    """
    points = read_records(plan, PlanPoint)
    sessions: dict[str, Session] = {}
    row_of_point: dict[str, Measurement] = {}
    for part in parts:
        for record in read_records(part, Session, Measurement):
            if isinstance(record, Session):
                sessions[record.session_id] = record
            else:
                row_of_point[record.point_id] = record
    missing = [point for point in points if point.point_id not in row_of_point]
    if missing:
        files = ", ".join(map(str, parts))
        raise ClusterError(
            f"{plan}: {len(missing)} of its points are in none of {files}, the first of world size "
            f"{missing[0].world_size}; delete these files and run the study again"
        )
    write_records(out, [*sessions.values(), *(row_of_point[point.point_id] for point in points)])
