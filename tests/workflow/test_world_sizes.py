"""On a cluster, an op of several GPUs is a job per world size, with what that size needs."""

import re
from pathlib import Path

import pytest

from roofcal.core.jsonl import read_records, write_records
from roofcal.core.records import Measurement, PlanPoint, Session
from tests.workflow.checkout import Checkout, list_gpu


@pytest.fixture
def run(fresh: Checkout) -> Path:
    return list_gpu(fresh)


def test_a_job_holds_the_gpus_cores_and_memory_of_its_world_size(
    fresh: Checkout, run: Path
) -> None:
    said = fresh.run("--dry-run", "-p", "--cores", "16")
    numbers = {}
    for job in said.split("\nrule ")[1:]:
        name = re.search(r"measurements/(?:by_gpus/)?([\w.]+)\.jsonl$", job, re.MULTILINE)
        resources = re.search(r"^    resources: (.*)$", job, re.MULTILINE)
        if job.startswith("measure") and name and resources:
            held = dict(re.findall(r"(\w+)=(\w+)", resources[1]))
            numbers[name[1]] = (int(held["gpu"]), int(held["mem_mb"]))
    assert numbers["probe_link.2"] == (2, 1000)
    assert numbers["probe_link.4"] == (4, 2000)  # the points of 16, which no node has, as well
    assert numbers["gemm"] == numbers["probe_copy"] == (1, 500)
    assert not any(name.endswith((".8", ".16")) for name in numbers)
    assert "rule compile_ahead" not in said
    jobs = [line for line in said.splitlines() if "python -m roofcal measure" in line]
    compiling = [re.findall(r"plan/(\w+)", job)[0] for job in jobs if "--compile-first" in job]
    assert sorted(compiling) == sorted(numbers.keys() - {"probe_link.2", "probe_link.4"})


def test_the_jobs_of_an_op_become_one_file_in_the_order_of_its_plan(
    fresh: Checkout, run: Path
) -> None:
    target = run / "measurements/probe_link.jsonl"
    fresh.run("--cores", "2", str(target.relative_to(fresh.folder)))

    rows = read_records(target, Measurement)
    plan = read_records(run / "plan/probe_link.jsonl", PlanPoint)
    assert [row.point_id for row in rows] == [point.point_id for point in plan]
    session_of = {2: "probe_link.2", 4: "probe_link.4", 16: "probe_link.4"}
    assert [row.session_id for row in rows] == [session_of[point.world_size] for point in plan]
    assert {s.session_id for s in read_records(target, Session)} == set(session_of.values())
    assert "Nothing to be done" in fresh.run("--cores", "2", str(target.relative_to(fresh.folder)))

    part = run / "measurements/by_gpus/probe_link.4.jsonl"
    write_records(part, read_records(part)[:-1])  # a part that lacks a point is not joined
    done = fresh.snakemake("--cores", "2", str(target.relative_to(fresh.folder)))
    assert done.returncode != 0
    assert "1 of its points are in none of" in (run / "log/join_probe_link.log").read_text()
