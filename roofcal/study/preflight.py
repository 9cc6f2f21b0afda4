"""Whether a profile for SLURM can work on this cluster, before anything waits in a queue.

A job that asks for more cores, memory or GPUs than any node of its partition has is not refused:
it waits, and Snakemake says nothing for minutes. `sinfo` knows better.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roofcal.core.jsonl import read_single_record
from roofcal.core.paths import RESULTS, RunFolder
from roofcal.core.records import Environment
from roofcal.core.units import MEGA, format_bytes
from roofcal.core.yaml_files import ConfigError, read_yaml
from roofcal.study.config import Study
from roofcal.study.runs import measuring_cores

_PLUGIN: Final = "snakemake_executor_plugin_slurm"
_INSTALL: Final = "python -m pip install --no-deps -r requirements/slurm.txt"
_ASK_S: Final = 60.0
_FIELDS: Final = "%P|%N|%c|%m|%G|%t"
_GPUS: Final = re.compile(r"gpu:(?:[^:,()]+:)?(\d+)")
_LOST: Final = ("down", "drain", "drng", "fail", "unk", "inval")


class PreflightError(ValueError):
    """A profile, or a cluster, that cannot be asked."""


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
    """Every node of every partition; raises PreflightError where SLURM does not answer."""
    if shutil.which("sinfo") is None:
        raise PreflightError("sinfo: not found; run this on a login node of the cluster")
    command = ["sinfo", "--noheader", "--Node", f"--format={_FIELDS}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ASK_S)
    except subprocess.TimeoutExpired:
        raise PreflightError(f"sinfo: no answer for {_ASK_S:g} s; is slurmctld up?") from None
    if done.returncode:
        raise PreflightError(f"sinfo: {done.stderr.strip() or 'failed'}")
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
    resources = _mapping(content, "default-resources")
    resources |= _mapping(_mapping(content, "set-resources"), "measure")
    of_partition = _partition_nodes(resources.get("slurm_partition"), nodes)
    if not of_partition:
        names = ", ".join(sorted({node.partition.rstrip("*") for node in nodes})) or "none"
        named = resources.get("slurm_partition", "(no default)")
        yield f"partition {named}: not there; partitions are {names}", True
        return
    up = [node for node in of_partition if node.is_up]
    partition = of_partition[0].partition.rstrip("*")
    yield f"partition {partition}: {len(up)} of {len(of_partition)} nodes in use", not up
    set_threads = _mapping(content, "set-threads").get("measure")
    threads, memory = _largest_job(study)
    threads = int(set_threads or threads)
    memory = int(_mapping(_mapping(content, "set-resources"), "measure").get("mem_mb", memory))
    cores = max(node.cores for node in of_partition)
    yield _fit(f"{threads} cores", f"{cores}", is_enough=threads <= cores)
    largest = max(node.memory_bytes for node in of_partition)
    asked, most = format_bytes(memory * MEGA), format_bytes(largest)
    yield _fit(f"{asked} of memory", most, is_enough=memory * MEGA <= largest)
    yield from _device_lines(study, threads, max(node.gpus for node in of_partition))


def _largest_job(study: Study) -> tuple[int, int]:
    """(cores, MB of memory) of the job of a listed and recorded device that asks for most."""
    sizes = [
        size
        for op in study.ops
        for sweep in study.op_slice(op, "cuda")["sweeps"].values()
        for size in sweep.get("world_sizes", ())
        if size <= study.file.gpus_per_node
    ]
    per_gpu, memory = study.file.measuring_cores, study.file.measuring_memory_mb
    cores, gpus = [1], [1]
    for name in study.devices if study.devices != "auto" else ():
        file = RunFolder.at(RESULTS / name).environment_file
        if file.is_file():
            environment = read_single_record(file, Environment)
            of_job = 1 if environment.vendor == "cpu" else max(sizes, default=1)
            gpus.append(of_job)
            cores.append(measuring_cores(per_gpu, environment) * of_job)
    return max(cores), memory * max(gpus)


def _partition_nodes(name: object, nodes: Sequence[Node]) -> list[Node]:
    """Nodes of a partition, of the default one without a name."""
    wanted = [n for n in nodes if (n.partition.endswith("*") if name is None else False)]
    return wanted or [node for node in nodes if node.partition.rstrip("*") == str(name)]


def _fit(what: str, most: str, *, is_enough: bool) -> tuple[str, bool]:
    if is_enough:
        return f"a job asks for {what}: fits", False
    return f"a job asks for {what}, no node of the partition has more than {most}", True


def _device_lines(study: Study, threads: int, gpus: int) -> Iterator[tuple[str, bool]]:
    """Whether the devices to measure are listed, recorded, and those of the nodes."""
    if study.devices == "auto":
        yield f"config/config.yaml: devices is auto, which is this login node; {_LIST}", True
        return
    for name in study.devices:
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
    "on a node of the device run `srun ... python -m roofcal doctor --write-environment results`, "
    "and list what it prints as <device>/<environment_id>"
)


def _mapping(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A mapping of a profile; {} where all of it is commented out."""
    value = content.get(key)
    return dict(value) if isinstance(value, Mapping) else {}
