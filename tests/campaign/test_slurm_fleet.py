"""`snakemake fleet` on a real SLURM: the CPUs of eight nodes are the cards, and one is slowed.

The times are those of a scripted worker, because eight nodes on one machine disturb each other;
SLURM, Snakemake, its plugin, profiles/slurm, the panel and its comparison are real.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign.one_op_study import StudyOfOneOp
from tests.campaign.slurm_study import ON_SLURM, run_on_slurm
from tests.roofcal.measure.runs import scripted

pytestmark = ON_SLURM
PANEL = """cpu:
  gemm:
    contenders: {fp32: [torch_cpu], bf16: [torch_cpu]}
    sweeps: {is_slower_on_a_node: {cubes: [64, 128, 256]}}
"""


@pytest.mark.usefixtures("slurm")  # nodes c1 to c8 are in partition fleet
def test_a_node_that_is_slowed_by_5_percent_is_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scripted(monkeypatch, tmp_path, measures_here=False)
    monkeypatch.setenv("SLOW_NODE", "c3")
    monkeypatch.setenv("SLOW_BY", "0.05")
    study = StudyOfOneOp.at(tmp_path / "checkout", run.folder / "trace")
    study.checkout.write("config/health.yaml", PANEL)
    device = f"{study.run.parent.name}/{study.run.name}"
    run_on_slurm(
        study.checkout.folder,
        "fleet",
        *("fleet", "--config", f'devices=["{device}"]', "fleet_nodes=c[1-8]"),
        *("--set-threads", "fleet_node=1", "--set-resources", "fleet_node:mem_mb=500"),
    )
    fleet = study.checkout.folder / "results/fleet" / device
    assert "1 of 8 cards is slower" in (fleet / "fleet.html").read_text()
    judge = [sys.executable, "-m", "roofcal", "fleet", str(fleet), "--json"]
    judged = subprocess.run(
        judge, cwd=study.checkout.folder, capture_output=True, text=True, check=False
    )
    assert judged.returncode == 1, judged.stderr
    causes = {verdict["card"]: verdict["cause"] for verdict in json.loads(judged.stdout)}
    assert causes == {f"c{n}/cpu": "unexplained" if n == 3 else None for n in range(1, 9)}
