"""`snakemake fleet` on a real SLURM: the CPUs of eight nodes are the cards, and one is slowed.

The times are those of a scripted worker, because eight nodes on one machine disturb each other;
SLURM, Snakemake, its plugin, profiles/slurm, the panel and its comparison are real.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaign.one_op_study import StudyOfOneOp
from tests.campaign.slurm_study import cluster_folder, shared_cluster, why_not_here
from tests.roofcal.measure.runs import scripted

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.campaign,
    pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here())),
]
PANEL = """cpu:
  gemm:
    contenders: {fp32: [torch_cpu], bf16: [torch_cpu]}
    sweeps: {is_slower_on_a_node: {cubes: [64, 128, 256]}}
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a cluster that runs: nodes c1 to c8 in partition fleet."""
    with shared_cluster(cluster_folder(tmp_path_factory.getbasetemp())) as folder:
        yield folder


def test_a_node_that_is_slowed_by_5_percent_is_named_and_no_other(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripted(monkeypatch, tmp_path)
    monkeypatch.setenv("SLOW_NODE", "c3")
    monkeypatch.setenv("SLOW_BY", "0.05")
    study = StudyOfOneOp.at(tmp_path / "checkout", run.folder / "trace")
    study.checkout.write("config/health.yaml", PANEL)
    device = f"{study.run.parent.name}/{study.run.name}"
    command = [
        *(sys.executable, "-m", "snakemake", "fleet"),
        *("--workflow-profile", "profiles/slurm", "--latency-wait", "5"),
        *("--set-threads", "fleet_node=1", "--set-resources", "fleet_node:mem_mb=500"),
        *("--default-resources", "mem_mb=500", "slurm_partition=fleet"),
        *("--config", f'devices=["{device}"]', "fleet_nodes=c[1-8]"),
    ]
    done = subprocess.run(
        command,
        cwd=study.checkout.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    fleet = study.checkout.folder / "results/fleet" / device
    assert "1 of 8 cards are slower" in (fleet / "fleet.html").read_text()
    judge = [sys.executable, "-m", "roofcal", "fleet", str(fleet), "--json"]
    judged = subprocess.run(
        judge, cwd=study.checkout.folder, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 1, judged.stderr
    causes = {verdict["card"]: verdict["cause"] for verdict in json.loads(judged.stdout)}
    assert causes == {f"c{n}/cpu": "unexplained" if n == 3 else None for n in range(1, 9)}
