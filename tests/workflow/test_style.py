"""The rules themselves: Snakemake's linter, the formatter, and the limits of DESIGN.md."""

import re
import subprocess
import sys

import pytest

from tests.paths import ROOT
from tests.workflow.checkout import Checkout

RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))


@pytest.mark.slow
def test_the_linter_has_nothing_to_say(fresh: Checkout) -> None:
    done = fresh.snakemake("--lint")

    assert done.returncode == 0, done.stdout
    assert "Congratulations" in done.stdout


def test_rules_are_formatted() -> None:
    command = [sys.executable, "-m", "snakefmt", "--check", "Snakefile", "workflow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("rule", [file.stem for file in RULES if file.stem != "common"])
def test_a_rule_has_one_file_a_log_and_no_python_of_its_own(rule: str) -> None:
    text = (ROOT / "workflow" / "rules" / f"{rule}.smk").read_text()

    names = r"^(?:rule|use rule \w+ as) (\w+)(?: with)?:"
    assert re.findall(names, text, re.MULTILINE) == [rule]
    assert "    log:" in text
    assert "    message:" in text
    assert not re.search(r"^\s+(run|script|notebook|wrapper):", text, re.MULTILINE)
    assert not re.search(r"^(import|from|def) ", text, re.MULTILINE)
