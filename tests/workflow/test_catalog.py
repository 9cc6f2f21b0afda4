"""What the catalog of Snakemake workflows asks for is there, and others can import ours."""

import shutil
from pathlib import Path

import yaml

from tests.paths import ROOT
from tests.workflow.checkout import CPU, Checkout

MODULE = """
module roofcal:
    snakefile: "{snakefile}"
    config: config

use rule * from roofcal
"""


def test_another_workflow_plans_the_study_as_a_module(fresh: Checkout, tmp_path: Path) -> None:
    other = Checkout(folder=tmp_path / "other")
    shutil.copytree(fresh.folder / "config", other.folder / "config")
    snakefile = fresh.folder / "workflow" / "Snakefile"
    other.write("workflow/Snakefile", MODULE.format(snakefile=snakefile))
    other.set_devices(CPU)

    other.run("--cores", "1", "--until", "plan", "--config", "ops=[probe_copy]")

    assert list(other.folder.glob("results/cpu-test/*/plan/probe_copy.jsonl"))


def test_the_catalog_finds_its_three_files() -> None:
    assert (ROOT / "workflow" / "Snakefile").is_file()
    assert (ROOT / "config" / "README.md").is_file()
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["software-stack-deployment"]["report"] is True
    readme = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in readme
    assert "workflow" in readme
