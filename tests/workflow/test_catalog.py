"""What the catalog of Snakemake workflows asks for, and the limits of DESIGN.md for rules."""

import re
import shutil
from pathlib import Path

import pytest
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


RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))


@pytest.mark.parametrize("rule", [file.stem for file in RULES if file.stem != "common"])
def test_a_rule_has_one_file_a_log_and_no_python_of_its_own(rule: str) -> None:
    text = (ROOT / "workflow" / "rules" / f"{rule}.smk").read_text()

    names = r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:"
    assert re.findall(names, text, re.MULTILINE) == [rule]
    assert "    log:" in text
    assert "    message:" in text
    assert not re.search(r"^\s+(run|script|notebook|wrapper):", text, re.MULTILINE)
    assert not re.search(r"^(import|from|def) ", text, re.MULTILINE)
