"""What does not fit a cluster is said before a job waits for it; which nodes a fleet has."""

import socket
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Environment
from roofcal.study.cluster import ClusterError, cluster_nodes, fleet_nodes, parse_nodes, preflight
from roofcal.study.config import Study, load_study
from roofcal.study.discover import DiscoverError
from roofcal.study.doctor import write_environments
from tests.paths import ROOT
from tests.roofcal.measure.runs import environment

SINFO = """gpu|n1|8|64000|gpu:h200:8(S:0-1)|idle
gpu|n2|8|64000|gpu:8|down*
cpu*|c1|2|40000|(null)|mix
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def study(**overrides: object) -> Study:
    return load_study(ROOT / "config", overrides)


def problems(folder: Path, profile: str, of: Study) -> list[str]:
    """The problems of a profile with this text on the cluster of SINFO."""
    (folder / "config.yaml").write_text(profile)
    lines = preflight(folder, of, parse_nodes(SINFO))
    return [line for line, is_problem in lines if is_problem and not line.startswith("plugin")]


@pytest.mark.parametrize(
    ("profile", "says"),
    [
        ("set-threads: {measure: 8}", "asks for 8 cores, no node of the partition has more than 2"),
        ("set-resources: {measure: {mem_mb: 50000}}", "of memory, no node"),
        ("executor: slurm", "devices is auto"),
        (
            "default-resources: {slurm_partition: gqu}",
            "partition gqu: not there; partitions are cpu, gpu",
        ),
    ],
)
def test_what_no_node_has_is_a_problem(here: Path, profile: str, says: str) -> None:
    assert any(says in problem for problem in problems(here, profile, study()))


def test_a_profile_that_fits_has_no_problem(here: Path) -> None:
    (problem,) = problems(here, "", study(devices=["nvidia-h200/e1"]))
    assert "results/nvidia-h200/e1/environment.jsonl: not there" in problem
    cpu = environment(threads=2)
    name = f"{cpu.device}/{cpu.environment_id}"
    write_records(here / "results" / name / "environment.jsonl", [cpu])
    assert problems(here, "executor: slurm", study(devices=[name])) == []
    (problem,) = problems(here, "set-threads: {measure: 1}", study(devices=[name]))
    assert "has 2 threads, set-threads gives 1" in problem
    (problem,) = problems(here, "default-resources: {slurm_partition: gpu}", study(devices=[name]))
    assert "no driver?" in problem


def test_a_job_on_all_gpus_of_a_node_needs_their_cores_and_memory(here: Path) -> None:
    gpu = environment(vendor="nvidia", threads=None)
    name = f"{gpu.device}/{gpu.environment_id}"
    write_records(here / "results" / name / "environment.jsonl", [gpu])
    on_gpus = "default-resources: {slurm_partition: gpu}"
    cores, memory = problems(here, on_gpus, study(devices=[name], study="full"))
    assert "asks for 32 cores, no node of the partition has more than 8" in cores
    assert "asks for 238.4 GiB of memory" in memory
    small = study(devices=[name], study="full", measuring_cores=1, measuring_memory_mb=8000)
    assert problems(here, on_gpus, small) == []


def test_a_node_is_recorded_where_the_study_looks_but_no_cpu_where_gpus_have_no_driver(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    monkeypatch.setattr("roofcal.study.doctor.visible_gpus", list)
    monkeypatch.setattr("roofcal.study.discover.visible_gpus", list)
    with pytest.raises(DiscoverError, match="8 GPU"):
        write_environments(ROOT / "config/devices", here / "results")
    assert not (here / "results").exists()
    monkeypatch.delenv("SLURM_GPUS_ON_NODE")
    (path,) = write_environments(ROOT / "config/devices", here / "results")
    (written,) = read_records(path, Environment)
    assert path.parent == here / "results" / written.device / written.environment_id


def test_a_cluster_that_does_not_answer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\nexec sleep 100\n")
    (tmp_path / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr("roofcal.study.cluster._ASK_S", 0.1)
    with pytest.raises(ClusterError, match=r"sinfo: no answer for 0\.1 s"):
        cluster_nodes()


def test_nodes_of_a_fleet_are_named_once_and_slurm_expands_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleet_nodes([]) == [socket.gethostname()]
    assert fleet_nodes(["n1", "n2", "n1"]) == ["n1", "n2"]
    with pytest.raises(ClusterError, match="no name of a node"):
        fleet_nodes(["../n1"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="list every node"):
        fleet_nodes(["n[1-2]"])
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\n[ \"$3\" = 'n[1-2]' ] && echo n1 && echo n2\n")
    scontrol.chmod(0o755)
    assert fleet_nodes(["n[1-2]", "c1"]) == ["n1", "n2", "c1"]
    with pytest.raises(ClusterError, match=r"'n\[\]': scontrol: names no node"):
        fleet_nodes(["n[]"])
